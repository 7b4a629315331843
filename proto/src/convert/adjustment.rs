//! Conversions of adjustments and environment variables.

use super::{Translate, message};
use crate::model::{Adjustment, EnvVar, LinuxAdjustment};
use crate::schema::api;

message! {
    ContainerAdjustment as Adjustment {
        annotations, mounts, env, hooks, linux, rlimits, args;
        CDI_devices as cdi_devices
    }
}

message! {
    LinuxContainerAdjustment as LinuxAdjustment {
        devices, resources, cgroups_path, oom_score_adj, io_priority, seccomp_policy,
        namespaces, sysctl, net_devices, scheduler, rdt, memory_policy
    }
}

message! {
    KeyValue as EnvVar { value; key as name }
}
