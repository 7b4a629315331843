//! The runtime side of the Node Resource Interface.

mod cause;
pub mod config;
pub mod health;
pub mod plugin;
pub mod policy;
mod remote;
pub mod request;
mod settings;
pub mod snapshot;
pub mod socket;
mod turns;
