//! The tests of the examples. They lie beside the examples and are built into this one: an example that is built to be tested is
//! not built as the program that `tests/process.rs` runs.

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
