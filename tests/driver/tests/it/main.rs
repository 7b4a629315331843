//! The driver, driven: what a controller relies on.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod api;
mod benchmarks;
mod driver;
mod errors;
mod launched;
mod lines;
mod plugins;
