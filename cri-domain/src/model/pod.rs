use std::collections::BTreeMap;
use std::sync::Arc;

use nri_proto::Resources;
use serde_json::Value;

/// The record of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodRecord {
    /// The id that the server gave the pod.
    pub id: String,
    /// The configuration that the kubelet requested.
    pub config: PodConfig,
    /// The OCI spec of the pod's own process, if the pod has one.
    pub spec: Option<Arc<Value>>,
    /// The current state of the pod.
    pub status: PodStatus,
    /// Labels that the server itself adds. They take precedence over those of the config.
    pub labels: BTreeMap<String, String>,
}

/// The configuration of a pod that the kubelet requested.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodConfig {
    /// The name of the pod in Kubernetes.
    pub name: String,
    /// The unique id of the pod in Kubernetes.
    pub uid: String,
    /// The namespace of the pod in Kubernetes.
    pub namespace: String,
    /// Labels of the pod.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pod.
    pub annotations: BTreeMap<String, String>,
    /// The runtime handler; empty for the default one.
    pub runtime_handler: String,
    /// The parent of the pod's cgroups; empty if it is not configured. Plugins can place containers
    /// only below it.
    pub cgroup_parent: String,
    /// Resources that the pod needs in addition to its containers. Update them when the pod is
    /// updated.
    pub overhead: Option<Resources>,
    /// Resources that all containers of the pod need together. Update them when the pod is updated.
    pub resources: Option<Resources>,
}

/// The current state of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodStatus {
    /// The lifecycle state.
    pub state: PodState,
    /// The id of the process that holds the pod's namespaces; 0 if there is none.
    pub pid: u32,
    /// The addresses of the pod, the primary one first. Empty if the pod uses the host's network.
    pub ips: Vec<String>,
    /// Whether the network of the pod was removed. This happens after plugins were notified that
    /// the pod was stopped. Plugins then do not see the network namespace of the spec any more,
    /// because its path may lead nowhere or to another namespace. They see addresses as long as
    /// `ips` has them.
    pub network_is_gone: bool,
}

/// The lifecycle state of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PodState {
    /// The pod runs, and containers can be created in it.
    Ready,
    /// The pod was stopped, or has ended.
    NotReady,
    /// The state is unknown.
    #[default]
    Unknown,
}

/// The pod that a container belongs to.
///
/// The containers of an unknown pod are stopped and removed as others are, and plugins get the id
/// of the pod. Only the creation of a container in an unknown pod fails.
#[derive(Clone, Debug, PartialEq)]
pub enum PodRef {
    /// The store has the pod.
    Known(Arc<PodRecord>),
    /// The store does not have the pod: the pod could not be read after a restart, or was removed.
    Unknown {
        /// The id of the pod.
        id: String,
    },
}

impl PodRef {
    /// Returns the id of the pod.
    pub fn id(&self) -> &str {
        match self {
            Self::Known(record) => &record.id,
            Self::Unknown { id } => id,
        }
    }
}

impl From<PodRecord> for PodRef {
    fn from(record: PodRecord) -> Self {
        Self::Known(Arc::new(record))
    }
}
