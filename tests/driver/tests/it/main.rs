//! Tests of the driver as its controllers use it.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod api;
mod benchmarks;
mod driver;
mod errors;
mod launched;
mod lines;
mod plugins;
