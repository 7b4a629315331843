//! Pods.

use std::collections::BTreeMap;

use super::{Namespace, Resources, Unknown};

/// A pod as plugins see it (`PodSandbox` on the wire).
///
/// ```
/// use nri_proto::{Pod, api};
///
/// let pod = Pod {
///     id: "4f1c".to_owned(),
///     name: "web-0".to_owned(),
///     namespace: "shop".to_owned(),
///     annotations: [("example.org/cpus".to_owned(), "dedicated".to_owned())].into(),
///     ..Pod::default()
/// };
/// assert_eq!(pod.annotation("example.org/cpus"), Some("dedicated"));
///
/// let message = api::PodSandbox::from(pod.clone());
/// assert_eq!(Pod::from(message), pod);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// The runtime's id of the pod.
    pub id: String,
    /// The name of the pod in Kubernetes.
    pub name: String,
    /// The unique id of the pod in Kubernetes.
    pub uid: String,
    /// The Kubernetes namespace of the pod.
    pub namespace: String,
    /// The labels of the pod.
    pub labels: BTreeMap<String, String>,
    /// The annotations of the pod.
    pub annotations: BTreeMap<String, String>,
    /// The requested runtime handler. Empty for the default.
    pub runtime_handler: String,
    /// The Linux-specific part.
    pub linux: Option<LinuxPod>,
    /// The id of the process that holds the namespaces of the pod. 0 if there is none.
    pub pid: u32,
    /// The IP addresses of the pod.
    pub ips: Vec<String>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl Pod {
    /// Returns the value of an annotation, by its key.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// Returns the value of a label, by its key.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }
}

/// The Linux-specific part of a [`Pod`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinuxPod {
    /// The resources of the pod in addition to those of its containers (`pod_overhead` on the
    /// wire).
    pub overhead: Option<Resources>,
    /// The resources of all containers of the pod together.
    pub pod_resources: Option<Resources>,
    /// The parent of the cgroups of the pod.
    pub cgroup_parent: String,
    /// The cgroup of the pod's own (pause) process.
    pub cgroups_path: String,
    /// The namespaces of the pod.
    pub namespaces: Vec<Namespace>,
    /// The resources of the pod's own (pause) process.
    pub resources: Option<Resources>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}
