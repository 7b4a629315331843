//! The containers that a shim has created and not deleted, by the answers of its Task service.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use protobuf::Message as _;
use tokio_util::sync::CancellationToken;
use ttrpc::{Code, Request, Response};

use super::task::{self, api};

/// The containers of a shim. Clones share them.
#[derive(Clone)]
pub(crate) struct Containers {
    known: Arc<Mutex<KnownContainers>>,
    /// Cancelled when a Shutdown that the author did not implement leaves nothing to do.
    ending: CancellationToken,
}

#[derive(Default)]
struct KnownContainers {
    /// The number of Create calls in progress.
    n_creating: usize,
    /// The bundle of each container, by id.
    bundles: HashMap<String, PathBuf>,
}

/// A call of the Task service that changes which containers there are. Dropping it without an
/// answer means that the call failed.
pub(crate) enum TaskCall {
    Create(Creating),
    Delete { id: String },
    Shutdown,
    Other,
}

/// A Create call in progress.
pub(crate) struct Creating {
    containers: Containers,
    id: String,
    bundle: PathBuf,
}

impl Drop for Creating {
    fn drop(&mut self) {
        self.containers.known.lock().n_creating -= 1;
    }
}

impl Containers {
    /// Creates the empty set. `ending` is cancelled when no container is left at a Shutdown that
    /// the author did not implement.
    pub(super) fn new(ending: CancellationToken) -> Self {
        Self { known: Arc::default(), ending }
    }

    /// Returns whether the bundles of all containers are gone.
    pub(crate) fn all_gone(&self, is_gone: impl Fn(&Path) -> bool) -> bool {
        let known = self.known.lock();
        known.n_creating == 0 && known.bundles.values().all(|bundle| is_gone(bundle))
    }

    /// Begins to observe a call, before it is known whether the shim refuses the call.
    pub(crate) fn observe(&self, request: &Request) -> TaskCall {
        if request.service != task::V2 && request.service != task::V3 {
            return TaskCall::Other;
        }
        match request.method.as_str() {
            "Create" => {
                // A message that cannot be decoded fails in the method, too.
                let create = api::CreateTaskRequest::parse_from_bytes(&request.payload).unwrap_or_default();
                self.known.lock().n_creating += 1;
                let (id, bundle) = (create.id, PathBuf::from(create.bundle));
                TaskCall::Create(Creating { containers: self.clone(), id, bundle })
            }
            "Delete" => match api::DeleteRequest::parse_from_bytes(&request.payload) {
                Ok(delete) if delete.exec_id.is_empty() => TaskCall::Delete { id: delete.id },
                Ok(_) | Err(_) => TaskCall::Other,
            },
            "Shutdown" => TaskCall::Shutdown,
            _ => TaskCall::Other,
        }
    }

    /// Records the answer to a call, and returns the answer for the caller.
    ///
    /// A Shutdown that the author did not implement is answered here: it ends the shim if each
    /// Create that succeeded has its Delete. Like Go's shim, it does nothing otherwise.
    pub(crate) fn answered(&self, call: TaskCall, response: Response) -> Response {
        let code = response.status.as_ref().map_or(Code::OK, |status| status.code());
        match call {
            TaskCall::Create(creating) if code == Code::OK => {
                let (id, bundle) = (creating.id.clone(), creating.bundle.clone());
                self.known.lock().bundles.insert(id, bundle);
            }
            TaskCall::Delete { id } if matches!(code, Code::OK | Code::NOT_FOUND) => {
                self.known.lock().bundles.remove(&id);
            }
            TaskCall::Shutdown if code == Code::UNIMPLEMENTED => {
                let known = self.known.lock();
                if known.n_creating == 0 && known.bundles.is_empty() {
                    // Under the lock: a Create that is counted later sees that the shim ends.
                    self.ending.cancel();
                }
                return Response::new();
            }
            TaskCall::Create(_) | TaskCall::Delete { .. } | TaskCall::Shutdown | TaskCall::Other => {}
        }
        response
    }
}
