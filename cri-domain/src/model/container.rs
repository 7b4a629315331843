use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nri_proto::{ContainerState, Image, Mount, Resources, SecurityProfile};
use serde_json::Value;

/// A container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerRecord {
    /// The server's id of it.
    pub id: String,
    /// The id of its pod.
    pub pod_id: String,
    /// What the kubelet asked for.
    pub config: ContainerConfig,
    /// The OCI spec, if it was made: also what plugins changed in it, and what was updated since.
    pub spec: Option<Arc<Value>>,
    /// What it is now.
    pub status: ContainerStatus,
    /// Labels that the server itself gave it. They count before those of the config. Labels of an image have no place here:
    /// whoever builds one would speak for the server.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the config that plugins removed: they are not shown, though the kubelet still asks for them.
    pub removed_annotations: BTreeSet<String>,
}

/// What the kubelet asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerConfig {
    /// Its name in the pod.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The command and its arguments.
    pub args: Vec<String>,
    /// The environment, as `NAME=value`.
    pub env: Vec<String>,
    /// What is mounted.
    pub mounts: Vec<Mount>,
    /// The limits.
    pub resources: Option<Resources>,
    /// How readily it is killed when memory runs out.
    pub oom_score_adj: Option<i64>,
    /// The image, as it was found.
    pub image: Option<Image>,
    /// CDI devices by their names, beside those that annotations ask for. Those that plugins gave to the container are added.
    pub cdi_devices: Vec<String>,
    /// The class of block I/O, wherever the server takes it from.
    pub blockio_class: Option<String>,
    /// The class of caches and memory bandwidth, wherever the server takes it from.
    pub rdt_class: Option<String>,
    /// Where its seccomp policy comes from.
    pub seccomp: SeccompRequest,
}

/// What the kubelet asked for of seccomp.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeccompRequest {
    /// The profile.
    pub profile: Option<SecurityProfile>,
    /// The same as kubelets before 1.19 say it: `unconfined`, `runtime/default` or `localhost/PATH`. It counts if there is no
    /// profile.
    pub deprecated_path: String,
    /// A privileged container has no policy, whatever else is asked for.
    pub privileged: bool,
}

/// What a container is now. Times are in nanoseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerStatus {
    /// Where it is in its life.
    pub state: ContainerState,
    /// The first process; 0 if it does not run.
    pub pid: u32,
    /// When it was created; 0 if it was not.
    pub created_at: i64,
    /// When it was started; 0 if it was not.
    pub started_at: i64,
    /// When it ended; 0 if it did not.
    pub finished_at: i64,
    /// How it ended, once it has.
    pub exit_code: i32,
    /// Why it is in its state, in one word such as `OOMKilled`; if it has ended and nothing is said, it is `Completed` or `Error`.
    pub reason: String,
    /// Why it is in its state, for people.
    pub message: String,
}

/// How a container ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// What its process returned; 255 if nobody knows.
    pub code: i32,
    /// When, in nanoseconds since 1970.
    pub at: i64,
    /// Why, in one word such as `OOMKilled`; empty for what follows from the code.
    pub reason: String,
    /// Why, for people.
    pub message: String,
}

impl ContainerStatus {
    /// Returns whether the container is known to exist and has not ended.
    pub(crate) fn is_alive(&self) -> bool {
        matches!(self.state, ContainerState::Created | ContainerState::Running | ContainerState::Paused)
    }

    /// Notes that it has ended. How is what is said first.
    pub fn exited(&mut self, exit: Exit) {
        if self.state == ContainerState::Stopped {
            return;
        }
        let Exit { code, at, reason, message } = exit;
        *self = Self {
            state: ContainerState::Stopped,
            pid: 0,
            finished_at: at,
            exit_code: code,
            reason,
            message,
            created_at: self.created_at,
            started_at: self.started_at,
        };
    }
}
