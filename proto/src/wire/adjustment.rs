use super::{Translate, word};
use crate::api;
use crate::words::{Adjustment, EnvVar, LinuxAdjustment};

word! {
    ContainerAdjustment as Adjustment {
        annotations, mounts, env, hooks, linux, rlimits, args;
        CDI_devices as cdi_devices
    }
}

word! {
    LinuxContainerAdjustment as LinuxAdjustment {
        devices, resources, cgroups_path, oom_score_adj, io_priority, seccomp_policy,
        namespaces, sysctl, net_devices, scheduler, rdt, memory_policy
    }
}

word! {
    KeyValue as EnvVar { value; key as name }
}
