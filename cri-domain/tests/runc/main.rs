//! The real runc with adjusted specs: for each field, a test creates a container and looks into it.
//!
//! The tests need root, runc and a static busybox (`scripts/setup runc`). A test that cannot run
//! here says so and passes, unless `NRI_REQUIRE_RUNC` is set. `docs/spec-fields.md` lists the
//! fields that cannot be observed here, with the reasons.

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
