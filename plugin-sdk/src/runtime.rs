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

/// The runtime, to ask it for something at any time. Clones are the same, and stay so over a reconnection.
#[derive(Clone, Debug)]
pub struct Runtime {
    client: Arc<watch::Sender<Option<Client>>>,
    timeout: Duration,
    /// The deadline of the handler that it was given to, while that runs.
    deadline: Option<Weak<Instant>>,
}

impl Runtime {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { client: Arc::new(watch::Sender::new(None)), timeout, deadline: None }
    }

    /// Asks for updates and evictions of containers, and returns the updates that the runtime could not make.
    ///
    /// Whether failed updates are returned or are an error is up to the runtime: those on `nri-api` return
    /// [`UpdateError::Failed`], unless the updates said `ignore_failure`. Other updates of the same call were made.
    ///
    /// # Errors
    ///
    /// There is no connection, the runtime says no or nothing, or updates have failed.
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

    /// Waits until there is a connection.
    pub async fn connected(&self) {
        // The sender lives as long as we do.
        let _ = self.client.subscribe().wait_for(Option::is_some).await;
    }

    /// The same for a handler that has to answer until then. It is over when the deadline is dropped.
    pub(crate) fn with_deadline(&self, deadline: &Arc<Instant>) -> Self {
        Self { client: Arc::clone(&self.client), timeout: self.timeout, deadline: Some(Arc::downgrade(deadline)) }
    }

    /// How long to wait for an answer. When the handler's time is over nobody waits for it any more.
    fn call_timeout(&self) -> Duration {
        let deadline = self.deadline.as_ref().and_then(Weak::upgrade);
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.filter(|left| !left.is_zero()).map_or(self.timeout, |left| self.timeout.min(left / 4 * 3))
    }

    /// What is asked for from now on goes here.
    pub(crate) fn connect(&self, client: Client) -> ConnectedGuard {
        self.client.send_replace(Some(client));
        ConnectedGuard(self.clone())
    }
}

/// The runtime can be asked until this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectedGuard(Runtime);

impl Drop for ConnectedGuard {
    fn drop(&mut self) {
        self.0.client.send_replace(None);
    }
}
