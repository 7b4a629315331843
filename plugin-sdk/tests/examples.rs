//! The tests of the examples, which are in the folders of the examples.
//!
//! They are built here, since Cargo would otherwise build the examples as tests, and not as the
//! programs that `tests/process.rs` runs.

#[path = "../examples/device-injector/main.rs"]
#[allow(dead_code, reason = "the program is not run here")]
mod device_injector;
#[path = "../examples/hook-injector/main.rs"]
#[allow(dead_code, reason = "the program is not run here")]
mod hook_injector;
#[path = "../examples/logger/main.rs"]
#[allow(dead_code, reason = "the program is not run here")]
mod logger;
#[path = "../examples/ulimit-adjuster/main.rs"]
#[allow(dead_code, reason = "the program is not run here")]
mod ulimit_adjuster;
