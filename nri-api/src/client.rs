//! The requests of one namespace to plugins.
//!
//! - `create`, `start`, `update`: requests that plugins approve, and the values that stand for
//!   them. `approval`: the first step of a start or an update.
//! - `pending`: an approved request while the runtime acts: committed, or rolled back when dropped.
//! - `stop_remove`: the ends of pods and containers. `exit`: ends that a task reports.
//! - `details`: what plugins are told of a container whose end the runtime did not report.
//! - `post`: events about completed actions.
//! - `detach`: a future that a task takes over when its caller leaves.

mod approval;
pub(crate) mod create;
mod detach;
mod details;
mod exit;
mod pending;
mod post;
pub(crate) mod start;
mod stop_remove;
pub(crate) mod update;

use std::sync::Arc;
use std::time::Duration;

use nri_adaptation::Operation;
use nri_proto::Pod;
use tokio::time::{Instant, timeout};

use self::detach::DetachOnDrop;
use crate::error::{Error, ObjectKind};
use crate::instance::Instance;
use crate::lifecycle::namespace::Namespace;

/// How long the end of an object waits for a caller that does not poll its own request.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sends the requests of one namespace to plugins.
#[derive(Clone)]
pub(crate) struct NamespaceClient {
    pub(crate) instance: Arc<Instance>,
    pub(crate) namespace: Arc<Namespace>,
    /// The deadline of the caller.
    pub(crate) deadline: Option<Instant>,
}

impl NamespaceClient {
    pub(crate) fn new(instance: &Arc<Instance>, namespace: Arc<Namespace>) -> Self {
        Self { instance: Arc::clone(instance), namespace, deadline: None }
    }

    /// Returns a client whose requests do not have the caller's deadline.
    fn without_deadline(&self) -> Self {
        Self { deadline: None, ..self.clone() }
    }

    /// Begins an operation about a pod, with the caller's deadline.
    fn begin(&self, pod: &Arc<Pod>) -> Operation {
        let operation = self.instance.adaptation.begin(Arc::clone(pod));
        match self.deadline {
            Some(deadline) => operation.until(deadline),
            None => operation,
        }
    }

    /// Returns a future that runs to its end, also if the caller drops it.
    fn run_to_end<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> DetachOnDrop<T> {
        DetachOnDrop::new(&self.instance, future)
    }

    /// Runs the end of an object in a pod. While the end waits, requests about the pod whose
    /// callers have stopped polling are cancelled.
    fn run_revoking<T>(&self, pod: &str, end: impl Future<Output = T> + Send) -> impl Future<Output = T> + Send {
        // Not an async function: its future would contain the end twice.
        let mut end = Box::pin(end);
        async move {
            loop {
                match timeout(PATIENCE, end.as_mut()).await {
                    Ok(outcome) => return outcome,
                    Err(_elapsed) => self.namespace.revoke_idle_requests(pod, PATIENCE),
                }
            }
        }
    }
}

/// Checks that an object to be created has an id.
fn check_id(kind: ObjectKind, id: &str) -> Result<(), Error> {
    if id.is_empty() { Err(Error::NoId { kind }) } else { Ok(()) }
}
