//! The requests of one namespace to plugins.
//!
//! - `create`, `start`, `update`: requests that plugins approve, and the values that stand for
//!   them. `approval`: the first step of a start or an update.
//! - `pending`: an approved request while the runtime acts: committed, or rolled back when dropped.
//! - `stop_remove`: the ends of pods and containers. `exit`: ends that a task reports.
//! - `details`: what plugins are told of a container whose end the runtime did not report.
//! - `post`: events about completed actions.
//! - `request_task`: a request that runs in a task while its caller waits.
//! - `detach`: a future that a task takes over when its caller leaves.

mod approval;
pub(crate) mod create;
mod detach;
mod details;
mod exit;
mod pending;
mod post;
mod request_task;
pub(crate) mod start;
mod stop_remove;
pub(crate) mod update;

use std::sync::Arc;

use nri_adaptation::Operation;
use nri_proto::Pod;
use tokio::time::Instant;

use self::detach::DetachOnDrop;
use self::request_task::{BoxedRequest, RequestTask};
use crate::error::{Error, ObjectKind};
use crate::instance::Instance;
use crate::lifecycle::namespace::Namespace;

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

    /// Returns a request that runs in a task. If the caller drops it, the request has failed.
    pub(crate) fn run_request<T: Send + 'static>(&self, request: BoxedRequest<T>) -> RequestTask<T> {
        RequestTask::new(&self.instance, self.deadline, request)
    }

    /// Returns a future that runs to its end, also if the caller drops it.
    fn run_to_end<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> DetachOnDrop<T> {
        DetachOnDrop::new(&self.instance, future)
    }
}

/// Checks that an object to be created has an id.
fn check_id(kind: ObjectKind, id: &str) -> Result<(), Error> {
    if id.is_empty() { Err(Error::NoId { kind }) } else { Ok(()) }
}
