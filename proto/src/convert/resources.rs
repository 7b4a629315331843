//! Conversions of resources.

use super::{Translate, message};
use crate::model::{Cpu, HugepageLimit, Memory, Pids, Resources};
use crate::schema::api;

message! {
    LinuxResources as Resources {
        memory, cpu, hugepage_limits, blockio_class, rdt_class, unified, devices, pids
    }, encode, decode
}

message! {
    LinuxMemory as Memory {
        limit, reservation, swap, kernel, kernel_tcp, swappiness, disable_oom_killer, use_hierarchy
    }, encode, decode
}

message! {
    LinuxCPU as Cpu { shares, quota, period, realtime_runtime, realtime_period, cpus, mems }, encode, decode
}

message! {
    HugepageLimit as HugepageLimit { page_size, limit }, encode, decode
}

message! {
    LinuxPids as Pids { limit }, encode, decode
}
