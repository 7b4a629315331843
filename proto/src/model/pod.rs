use std::collections::BTreeMap;

use super::{Namespace, Resources, Unknown};

/// A pod, as plugins see it.
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
    /// The runtime handler that was asked for; empty for the default one.
    pub runtime_handler: String,
    /// What only Linux has.
    pub linux: Option<LinuxPod>,
    /// The process that holds the pod's namespaces; 0 if there is none.
    pub pid: u32,
    /// The addresses of the pod.
    pub ips: Vec<String>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl Pod {
    /// Returns the value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// Returns the value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }
}

/// The part of a [`Pod`] that only Linux has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinuxPod {
    /// What the pod needs in addition to its containers (`pod_overhead` on the wire).
    pub overhead: Option<Resources>,
    /// What all containers of the pod need together.
    pub pod_resources: Option<Resources>,
    /// The cgroup under which those of the pod are made.
    pub cgroup_parent: String,
    /// The cgroup of the pod's own process.
    pub cgroups_path: String,
    /// The namespaces of the pod.
    pub namespaces: Vec<Namespace>,
    /// The resources of the pod's own process.
    pub resources: Option<Resources>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}
