use super::{Translate, word};
use crate::api;
use crate::words::{LinuxPod, Pod};

word! {
    PodSandbox as Pod {
        id, name, uid, namespace, labels, annotations, runtime_handler, linux, pid, ips
    }
}

word! {
    LinuxPodSandbox as LinuxPod {
        pod_resources, cgroup_parent, cgroups_path, namespaces, resources;
        pod_overhead as overhead
    }
}
