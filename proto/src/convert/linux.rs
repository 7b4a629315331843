//! Conversions of the Linux part of a container.

use protobuf::EnumOrUnknown;

use super::{Translate, message, numbers};
use crate::model::{IoPriority, IoPriorityClass, LinuxContainer, Namespace, Rdt, Unnamed};
use crate::schema::api;

message! {
    LinuxContainer as LinuxContainer {
        namespaces, devices, resources, oom_score_adj, cgroups_path, io_priority, seccomp_profile,
        seccomp_policy, sysctl, net_devices, scheduler, rdt
    }, encode
}

message! {
    LinuxNamespace as Namespace { type_ as kind, path }, encode
}

message! {
    LinuxIOPriority as IoPriority { class, priority }, encode
}

numbers! {
    api::IOPrioClass as IoPriorityClass {
        IOPRIO_CLASS_NONE as None,
        IOPRIO_CLASS_RT as RealTime,
        IOPRIO_CLASS_BE as BestEffort,
        IOPRIO_CLASS_IDLE as Idle,
    }
}

message! {
    LinuxRdt as Rdt { clos_id, schemata, enable_monitoring, remove }, encode
}
