use super::{Translate, word};
use crate::model::{LinuxPod, Pod};
use crate::schema::api;

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
