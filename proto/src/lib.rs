//! The Node Resource Interface protocol, shared by both ends of the wire.
//!
//! - Generated from `nri.proto`: the messages in [`api`], the ttrpc services in [`service`].
//! - What plugins can subscribe to ([`event`]), what they are called ([`plugin_id`]), where both
//!   ends meet ([`defaults`]) and which version they speak ([`version`]).
//! - Pods, containers and what plugins change in them in plain Rust ([`words`]), with conversions to and from the
//!   messages. Everyone but the wire's edges says these.
//! - The same from words to bytes and back without a message in between, for what is often on the wire ([`encode`],
//!   [`decode`]).
//! - The wire: many channels on one connection ([`mux`]), calls on a channel ([`call`]), and
//!   messages that may not grow when they are read ([`bounded`]).

pub mod bounded;
pub mod call;
pub mod decode;
pub mod defaults;
pub mod descriptor;
pub mod encode;
pub mod event;
mod generated;
pub mod mux;
pub mod plugin_id;
pub mod quote;
#[cfg(test)]
mod raw;
pub mod shape;
pub mod spelling;
mod tables;
pub mod version;
mod wire;
pub mod words;

pub use event::{Event, EventMask};
pub use generated::nri as api;
pub use generated::nri_ttrpc as service;
pub use plugin_id::PluginId;
pub use words::*;
