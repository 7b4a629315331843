//! Conversions of adjustments and environment variables.

use super::{Translate, decode_usual, message};
use crate::model::{Adjustment, EnvVar, LinuxAdjustment};
use crate::schema::api;

message! {
    ContainerAdjustment as Adjustment {
        annotations, mounts, env, hooks, linux, rlimits, CDI_devices as cdi_devices, args
    }, decode
}

message! {
    LinuxContainerAdjustment as LinuxAdjustment {
        devices, resources, cgroups_path, oom_score_adj, io_priority, seccomp_policy, namespaces, sysctl,
        net_devices, scheduler, rdt, memory_policy
    }
}

// Plugins rarely change the other fields. A reply with one of them is decoded as a message.
decode_usual! {
    LinuxContainerAdjustment as LinuxAdjustment { devices, resources, cgroups_path, oom_score_adj, sysctl }
}

message! {
    KeyValue as EnvVar { key as name, value }, decode
}
