//! Plugins that are loaded and ended.

mod loading;
#[path = "../../tests/memory/own_process.rs"]
mod own_process;
mod reaping;
