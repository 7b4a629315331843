use std::collections::BTreeMap;
use std::sync::Arc;

use nri_proto::Resources;
use serde_json::Value;

/// A pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodRecord {
    /// The server's id of it.
    pub id: String,
    /// What the kubelet asked for.
    pub config: PodConfig,
    /// The OCI spec of the pod's own process, if it has one.
    pub spec: Option<Arc<Value>>,
    /// What it is now.
    pub status: PodStatus,
    /// Labels that the server itself gave it. They count before those of the config.
    pub labels: BTreeMap<String, String>,
}

/// What the kubelet asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodConfig {
    /// Its name in Kubernetes.
    pub name: String,
    /// Its unique id in Kubernetes.
    pub uid: String,
    /// Its namespace in Kubernetes.
    pub namespace: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The runtime handler; empty for the default one.
    pub runtime_handler: String,
    /// The cgroup under which those of the pod are made; empty if nobody said. Plugins can put containers below it alone.
    pub cgroup_parent: String,
    /// What the pod needs in addition to its containers. Set it anew when it is updated.
    pub overhead: Option<Resources>,
    /// What all containers of the pod need together. Set it anew when it is updated.
    pub resources: Option<Resources>,
}

/// What a pod is now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodStatus {
    /// Where it is in its life.
    pub state: PodState,
    /// The process that holds its namespaces; 0 if there is none.
    pub pid: u32,
    /// Its addresses, the first one first; none if it has the host's.
    pub ips: Vec<String>,
    /// Whether its network was taken down, which is after plugins have heard that the pod was stopped. Then the network namespace of
    /// the spec is not shown any more: its path may lead nowhere, or into another's. Addresses are shown as long as they are in `ips`.
    pub network_is_gone: bool,
}

/// Where a pod is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PodState {
    /// Containers can be created in it.
    Ready,
    /// It was stopped, or ended.
    NotReady,
    /// The server does not know.
    #[default]
    Unknown,
}

/// The pod that a container says it is in.
///
/// One that is not known is no reason to keep quiet about its containers: they are stopped and removed like others, and
/// plugins are told the id. Only to create a container in it is an error.
#[derive(Clone, Debug, PartialEq)]
pub enum PodRef {
    /// The server knows it.
    Known(Arc<PodRecord>),
    /// The server does not know it: it could not be read after a restart, or is gone.
    Unknown {
        /// The id.
        id: String,
    },
}

impl PodRef {
    /// Returns the id.
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
