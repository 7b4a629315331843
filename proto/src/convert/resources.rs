use super::{Translate, word};
use crate::model::{Cpu, HugepageLimit, Memory, Pids, Resources};
use crate::schema::api;

word! {
    LinuxResources as Resources {
        memory, cpu, hugepage_limits, blockio_class, rdt_class, unified, devices, pids
    }
}

word! {
    LinuxMemory as Memory {
        limit, reservation, swap, kernel, kernel_tcp, swappiness, disable_oom_killer, use_hierarchy
    }
}

word! {
    LinuxCPU as Cpu { shares, quota, period, realtime_runtime, realtime_period, cpus, mems }
}

word! {
    HugepageLimit as HugepageLimit { page_size, limit }
}

word! {
    LinuxPids as Pids { limit }
}
