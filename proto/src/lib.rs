//! The Node Resource Interface protocol, shared by both ends of the wire.
//!
//! - Generated from `nri.proto`: the messages in [`api`], the ttrpc services in [`service`].
//! - What plugins can subscribe to ([`event`]), what they are called ([`plugin_id`]), where both
//!   ends meet ([`defaults`]) and which version they speak ([`version`]).
//! - Pods, containers and what plugins change in them in plain Rust ([`model`]), with conversions to and from the
//!   messages. Everyone but the wire's edges says these.
//! - The same from words to bytes and back without a message in between, for what is often on the wire ([`encode`],
//!   [`decode`]).
//! - The wire: many channels on one connection ([`mux`]), calls on a channel ([`call`]), and
//!   messages that may not grow when they are read ([`bounded`]).

pub mod call;
mod codec;
mod convert;
pub mod event;
pub mod model;
pub mod mux;
mod peer;
mod schema;
mod text;

pub use codec::{bounded, decode, encode};
#[cfg(any(test, feature = "proptest"))]
pub use convert::arbitrary;
pub use event::{Event, EventMask};
pub use model::*;
pub use peer::plugin_id::PluginId;
pub use peer::{defaults, plugin_id, version};
pub use schema::{api, descriptor, service, shape};
pub use text::{quote, spelling};
