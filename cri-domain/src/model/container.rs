use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nri_proto::{ContainerState, Image, Mount, Resources, SecurityProfile};
use serde_json::Value;

/// The record of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerRecord {
    /// The id that the server gave the container.
    pub id: String,
    /// The id of the container's pod.
    pub pod_id: String,
    /// The configuration that the kubelet requested.
    pub config: ContainerConfig,
    /// The OCI spec, with the changes of plugins and later updates. `None` if there is no spec.
    pub spec: Option<Arc<Value>>,
    /// The current state of the container.
    pub status: ContainerStatus,
    /// Labels that the server itself adds. They take precedence over those of the config. Do not
    /// add labels of an image: its author could then set labels in the name of the server.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the config that plugins removed. They are hidden from plugins.
    pub removed_annotations: BTreeSet<String>,
}

/// The configuration of a container that the kubelet requested.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerConfig {
    /// The name of the container in its pod.
    pub name: String,
    /// Labels of the container.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the container.
    pub annotations: BTreeMap<String, String>,
    /// The command and its arguments.
    pub args: Vec<String>,
    /// The environment, as `NAME=value`.
    pub env: Vec<String>,
    /// Mounts of the container.
    pub mounts: Vec<Mount>,
    /// Limits of the container.
    pub resources: Option<Resources>,
    /// The OOM score adjustment: a process with a higher value is killed earlier when memory runs
    /// out.
    pub oom_score_adj: Option<i64>,
    /// The image, as the server resolved it.
    pub image: Option<Image>,
    /// Names of CDI devices. Devices that plugins add are appended. Devices that annotations
    /// request are not in the list.
    pub cdi_devices: Vec<String>,
    /// The class of block I/O, from any source that the server has.
    pub blockio_class: Option<String>,
    /// The RDT class (caches and memory bandwidth), from any source that the server has.
    pub rdt_class: Option<String>,
    /// The seccomp configuration.
    pub seccomp: SeccompRequest,
}

/// The seccomp configuration of a container that the kubelet requested.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeccompRequest {
    /// The seccomp profile.
    pub profile: Option<SecurityProfile>,
    /// The profile as kubelets before 1.19 specify it: `unconfined`, `runtime/default` or
    /// `localhost/PATH`. It is used if `profile` is `None`.
    pub deprecated_path: String,
    /// Whether the container is privileged. A privileged container always runs without a seccomp
    /// policy.
    pub privileged: bool,
}

/// The current state of a container. Times are in nanoseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerStatus {
    /// The lifecycle state.
    pub state: ContainerState,
    /// The process id of the first process; 0 if the container does not run.
    pub pid: u32,
    /// The time of creation; 0 if the container was not created.
    pub created_at: i64,
    /// The time of the start; 0 if the container was not started.
    pub started_at: i64,
    /// The time of the exit; 0 if the container has not ended.
    pub finished_at: i64,
    /// The exit code, once the container has ended.
    pub exit_code: i32,
    /// The reason of the state for machines, such as `OOMKilled`. If it is empty and the container
    /// has ended, plugins see `Completed` or `Error`.
    pub reason: String,
    /// The reason of the state for people.
    pub message: String,
}

/// The exit of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// The exit code of the process; 255 if the code is unknown.
    pub code: i32,
    /// The time, in nanoseconds since 1970.
    pub at: i64,
    /// The reason for machines, such as `OOMKilled`. If it is empty, the reason follows from the
    /// code.
    pub reason: String,
    /// The reason for people.
    pub message: String,
}

impl ContainerStatus {
    /// Returns whether the container is known to exist and has not ended.
    pub(crate) fn is_alive(&self) -> bool {
        matches!(self.state, ContainerState::Created | ContainerState::Running | ContainerState::Paused)
    }

    /// Records that the container has ended. Only the first exit is recorded.
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
