//! Plugins that are loaded and ended.

mod loading;
mod reaping;
