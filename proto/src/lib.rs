//! The Node Resource Interface protocol, shared by both ends of the wire.
//!
//! Generated from `nri.proto`: the messages in [`api`], the ttRPC services in [`service`]. Written by hand: what
//! plugins can subscribe to ([`event`]), what they are called ([`plugin_id`]), where both ends meet ([`defaults`])
//! and which version they speak ([`version`]).

mod generated;

pub mod defaults;
pub mod event;
pub mod plugin_id;
pub mod quote;
pub mod version;

pub use event::{Event, EventMask};
pub use generated::nri as api;
pub use generated::nri_ttrpc as service;
pub use plugin_id::PluginId;
