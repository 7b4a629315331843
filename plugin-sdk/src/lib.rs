//! Write a plugin for the Node Resource Interface (NRI).

#[cfg(feature = "cli")]
pub mod cli;
mod connection;
mod context;
mod error;
mod identity;
mod inherited;
mod introduction;
mod options;
mod plugin;
mod refusal;
mod runner;
mod runtime;
mod service;
mod session;
mod signal;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;

pub use async_trait::async_trait;
pub use nri_proto as proto;
pub use nri_proto::words::*;
pub use nri_proto::{Event, EventMask, PluginId};

pub use connection::{ConnectError, Connection, Dialer, Stream};
pub use context::Context;
pub use error::{OptionsError, RunError};
pub use identity::IdentityError;
pub use inherited::InheritedError;
pub use introduction::Introduction;
pub use options::{Backoff, Options};
pub use plugin::Plugin;
pub use refusal::{Refusal, chain};
pub use runner::{Runner, run};
pub use runtime::{Runtime, UpdateError};
pub use signal::stop_signal;

#[cfg(test)]
mod tests;
