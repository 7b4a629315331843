//! The real runc with adjusted specs: for each field a container is made with it, and looked into.
//!
//! It takes root, runc and a static busybox (`scripts/setup runc`). Where it cannot be done it says so and passes, unless
//! `NRI_REQUIRE_RUNC` is set. Which fields nobody can look at here, and why, is in `docs/spec-fields.md`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests, and what they share")]

mod bundle;
mod cgroups;
#[path = "../../examples/mini-runtime/output.rs"]
mod mini_output;
#[allow(dead_code, reason = "a runtime does more with it")]
#[path = "../../examples/mini-runtime/runc.rs"]
mod mini_runc;
mod mounting;
mod newer;
mod output;
mod process;
mod running;
mod stopping;
mod updates;
