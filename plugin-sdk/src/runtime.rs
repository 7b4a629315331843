//! The calls of a plugin: requests to the runtime, at any time and over reconnections.
//!
//! - `runtime.rs` is the handle that handlers and tasks use, and which connection it uses now.
//! - `rpc.rs` has the RPCs of the runtime's service, encoded and decoded.
//! - `error.rs` has the errors of an update.

mod error;
mod rpc;

use std::sync::{Arc, Weak};
use std::time::Duration;

use nri_proto::call::{CallError, Client};
use nri_proto::{Eviction, Update, api};
use tokio::sync::watch;
use tokio::time::Instant;

pub use self::error::UpdateError;
pub(crate) use self::rpc::{encode, register};
use self::rpc::{failed_updates, method};

/// A handle for calling the runtime: it asks for updates and evictions of containers.
///
/// All clones use the current connection. After a reconnection, they use the new one.
#[derive(Clone, Debug)]
pub struct Runtime {
    /// The client of the current connection, or none while the plugin is disconnected.
    client: Arc<watch::Sender<Option<Client>>>,
    /// The longest time to wait for a reply.
    timeout: Duration,
    /// The deadline of the handler that received this handle. The handler owns the deadline, so
    /// this reference is dead once the handler has returned.
    deadline: Option<Weak<Instant>>,
}

impl Runtime {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { client: Arc::new(watch::Sender::new(None)), timeout, deadline: None }
    }

    /// Asks the runtime to update and evict containers, and returns the updates that failed.
    ///
    /// The runtime decides whether failed updates are returned or are an error. Runtimes on
    /// `nri-api` answer with [`UpdateError::Failed`], unless the updates set `ignore_failure`. The
    /// other updates of the same call are applied in either case.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no connection, if the runtime refuses the call or does not
    /// reply in time, or if updates have failed.
    pub async fn update(&self, updates: Vec<Update>, evictions: Vec<Eviction>) -> Result<Vec<Update>, UpdateError> {
        let client = self.client.borrow().clone().ok_or(UpdateError::NotConnected)?;
        let request = api::UpdateContainersRequest {
            update: updates.into_iter().map(Into::into).collect(),
            evict: evictions.into_iter().map(Into::into).collect(),
            ..Default::default()
        };
        let answer = client.call(method("UpdateContainers"), encode(&request), self.call_timeout()).await;
        match answer {
            Ok(answer) => failed_updates(&answer).map_err(UpdateError::Answer),
            Err(CallError::Refused { code, message: reason, payload }) => match failed_updates(&payload) {
                Ok(failed) if !failed.is_empty() => Err(UpdateError::Failed { reason, failed }),
                Ok(_) | Err(_) => Err(UpdateError::Call(CallError::Refused { code, message: reason, payload })),
            },
            Err(error) => Err(UpdateError::Call(error)),
        }
    }

    /// Waits until the plugin is connected to a runtime.
    pub async fn connected(&self) {
        // Waiting fails only without a sender, and `self` owns one.
        let _ = self.client.subscribe().wait_for(Option::is_some).await;
    }

    /// Returns a handle whose calls leave the handler time to reply before `deadline`.
    ///
    /// The limit ends when the caller drops `deadline`, that is, when the handler has returned.
    pub(crate) fn with_deadline(&self, deadline: &Arc<Instant>) -> Self {
        Self { client: Arc::clone(&self.client), timeout: self.timeout, deadline: Some(Arc::downgrade(deadline)) }
    }

    /// Returns how long a call may take: at most three quarters of the time left to the handler.
    ///
    /// After the deadline, the runtime no longer waits for the handler, and only the timeout
    /// counts.
    fn call_timeout(&self) -> Duration {
        let deadline = self.deadline.as_ref().and_then(Weak::upgrade);
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.filter(|left| !left.is_zero()).map_or(self.timeout, |left| self.timeout.min(left / 4 * 3))
    }

    /// Sends all further calls to `client`, until the returned guard is dropped.
    pub(crate) fn connect(&self, client: Client) -> ConnectedGuard {
        self.client.send_replace(Some(client));
        ConnectedGuard(self.clone())
    }
}

/// Keeps a [`Runtime`] connected. Dropping the guard disconnects the handle and all its clones.
#[derive(Debug)]
pub(crate) struct ConnectedGuard(Runtime);

impl Drop for ConnectedGuard {
    fn drop(&mut self) {
        self.0.client.send_replace(None);
    }
}
