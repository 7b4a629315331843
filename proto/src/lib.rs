//! The Node Resource Interface (NRI) protocol, shared by runtimes and plugins.
//!
//! Where to start reading:
//!
//! - [`model`]: pods, containers, and the changes that plugins make to them, in plain Rust. All
//!   code but the edges of the wire uses these types. They convert from and into the messages.
//! - [`api`] and [`service`]: the messages and ttrpc services that the build generates from
//!   `nri.proto`.
//! - [`event`]: the events that plugins subscribe to.
//! - [`plugin_id`], [`version`] and [`defaults`]: plugin names, protocol versions, and well-known
//!   paths, environment variables and timeouts.
//! - [`encode`], [`decode`] and [`bounded`]: model types to bytes and back without intermediate
//!   messages, and a limit on the memory that a received message can take.
//! - [`mux`] and [`call`]: several channels on one connection, and RPC on a channel.
//!
//! # Tasks
//!
//! [`mux`] runs one task per connection, and [`call`] one per client and one per request that is
//! being served. No other module spawns tasks.

// The order of these rooms is in docs/architecture.md: a room imports only from lower ones.
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
