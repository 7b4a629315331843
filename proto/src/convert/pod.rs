//! Conversions of pods.

use super::{Translate, message};
use crate::model::{LinuxPod, Pod};
use crate::schema::api;

message! {
    PodSandbox as Pod {
        id, name, uid, namespace, labels, annotations, runtime_handler, linux, pid, ips
    }, encode
}

message! {
    LinuxPodSandbox as LinuxPod {
        pod_overhead as overhead, pod_resources, cgroup_parent, cgroups_path, namespaces, resources
    }, encode
}
