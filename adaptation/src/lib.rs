//! The runtime side of the Node Resource Interface.

pub mod config;
pub mod policy;
mod settings;
pub mod snapshot;
pub mod socket;
