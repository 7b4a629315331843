//! The runtime side of the Node Resource Interface.

mod adaptation;
mod asked;
mod cause;
pub mod config;
mod connection;
mod entry;
mod events;
pub mod health;
mod listener;
mod missed;
mod operation;
pub mod plugin;
pub mod policy;
mod remote;
pub mod request;
mod roster;
mod settings;
mod shared;
pub mod snapshot;
pub mod socket;
mod source;
mod turns;

pub use adaptation::{Adaptation, AdmitError, PluginStatus};
pub use cause::{Cause, Failure, RelayError};
pub use config::Config;
pub use events::{Happening, Metrics, NoMetrics};
pub use operation::{Notice, Operation, Said};
pub use plugin::Plugin;
pub use source::Source;

#[cfg(test)]
mod tests;
