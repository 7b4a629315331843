//! Calls over a channel: a ttrpc client and server of our own, on the message types and the
//! generated services of the `ttrpc` crate.
//!
//! The client takes encoded messages and returns encoded messages, so that one request is encoded
//! once for all plugins. It promises what a runtime needs when a plugin is slow or gone:
//!
//! - stream ids leave in order at any concurrency, as a Go server demands;
//! - the deadline covers the writing of the request, and travels with it;
//! - giving up leaves the connection usable: a message that was begun is finished, and the reply
//!   that comes late still reaches whoever waits for it ([`PendingReply::late`]).
//!
//! The server ([`serve`]) answers for its handlers: a panic is an answer, the requests in flight
//! are bounded, and a handler that was begun runs to its end.
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
//! tokio::spawn(call::serve(served, services, call::ServeLimits::default(), CancellationToken::new()));
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
