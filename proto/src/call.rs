//! RPC on a channel: a ttrpc client and a ttrpc server, on the message types and the generated
//! services of the `ttrpc` crate.
//!
//! The [`Client`] takes and returns encoded messages, so that a request to several plugins is
//! encoded once. It guarantees what a runtime needs when a plugin is slow or gone:
//!
//! - Stream ids are sent in ascending order at any concurrency, as a Go server requires.
//! - The deadline of a call includes sending the request, and is sent with it.
//! - The connection stays usable after a timeout. A message that was begun is completed, and a late
//!   reply can still be received ([`PendingReply::late`]).
//!
//! The server ([`serve`]) protects the connection from its handlers. A panic becomes an error
//! reply, the number and size of concurrent requests are bounded, and a handler that was started
//! runs to completion.
//!
//! - `client.rs`: [`Client`], and the task that receives replies.
//! - `pending_calls.rs`: the calls of a client without a reply, by stream id.
//! - `pending_reply.rs`: [`PendingReply`], the handle of one call.
//! - `serve.rs`: the server.
//! - `envelope.rs`: the ttrpc messages around the payload of a call.
//! - `error.rs`: [`CallError`].
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use nri_proto::call::{self, CallError, Client, Method};
//! use nri_proto::mux::{ChannelId, Limits, Mux};
//! use tokio_util::sync::CancellationToken;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> anyhow::Result<()> {
//! let (here, there) = tokio::net::UnixStream::pair()?;
//! let ids = [ChannelId::PLUGIN_SERVICE];
//! let (_runtime, [requests]) = Mux::on_unix(here, ids, Limits::default())?;
//! let (_plugin, [served]) = Mux::on_unix(there, ids, Limits::default())?;
//!
//! // A server without services refuses every request, by name.
//! let services = Arc::default();
//! let limits = call::ServeLimits::default();
//! tokio::spawn(call::serve(served, services, limits, CancellationToken::new()));
//!
//! let client = Client::new(requests);
//! let shutdown = Method { service: "nri.pkg.api.v1alpha1.Plugin", name: "Shutdown" };
//! let answer = client.call(shutdown, bytes::Bytes::new(), Duration::from_secs(2)).await;
//! assert!(matches!(answer, Err(CallError::Refused { code: ttrpc::Code::UNIMPLEMENTED, .. })));
//! # Ok(())
//! # }
//! ```

mod client;
mod envelope;
mod error;
mod pending_calls;
mod pending_reply;
mod serve;
#[cfg(test)]
mod tests;

pub use self::client::{Client, Method};
pub use self::error::CallError;
pub use self::pending_reply::PendingReply;
pub use self::serve::{ServeLimits, Services, serve};
pub use crate::mux::{MAX_MESSAGE, MESSAGE_HEADER_LENGTH};
