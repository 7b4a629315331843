use std::collections::BTreeMap;

use super::{DeviceRule, Unknown};

/// What a container or pod may use.
///
/// What is `None` is not set, which is something else than zero:
///
/// ```
/// use nri_proto::{Cpu, Memory, Resources, api};
///
/// let resources = Resources {
///     memory: Some(Memory { limit: Some(64 << 20), swappiness: Some(0), ..Memory::default() }),
///     cpu: Some(Cpu { cpus: "0-3".to_owned(), ..Cpu::default() }),
///     ..Resources::default()
/// };
/// let message = api::LinuxResources::from(resources.clone());
/// assert!(message.memory.swappiness.is_some());
/// assert!(message.memory.reservation.is_none());
/// assert_eq!(Resources::from(message), resources);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Memory.
    pub memory: Option<Memory>,
    /// CPU time, and which CPUs.
    pub cpu: Option<Cpu>,
    /// Huge pages, by their size.
    pub hugepage_limits: Vec<HugepageLimit>,
    /// The class of block I/O that the runtime has settings for.
    pub blockio_class: Option<String>,
    /// The class of caches and memory bandwidth that the runtime has settings for.
    pub rdt_class: Option<String>,
    /// Files of cgroup v2 and what to write there.
    pub unified: BTreeMap<String, String>,
    /// Which devices may be used; later rules win.
    pub devices: Vec<DeviceRule>,
    /// Processes and threads.
    pub pids: Option<Pids>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl Resources {
    /// Memory, made if there is nothing said of it.
    pub fn memory_mut(&mut self) -> &mut Memory {
        self.memory.get_or_insert_default()
    }

    /// CPU time and which CPUs, made if there is nothing said of it.
    pub fn cpu_mut(&mut self) -> &mut Cpu {
        self.cpu.get_or_insert_default()
    }

    /// Limits processes and threads; -1 for no limit.
    pub fn limit_pids(&mut self, limit: i64) {
        self.pids.get_or_insert_default().limit = limit;
    }

    /// Limits huge pages of one size, such as `2MB`, to so many bytes.
    pub fn limit_hugepages(&mut self, page_size: impl Into<String>, limit: u64) {
        let page_size = page_size.into();
        self.hugepage_limits.retain(|other| other.page_size != page_size);
        self.hugepage_limits.push(HugepageLimit { page_size, limit, unknown: Unknown::default() });
    }
}

/// Limits of memory. Amounts are in bytes, -1 for no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// How much may be used.
    pub limit: Option<i64>,
    /// How much is aimed at when memory is short.
    pub reservation: Option<i64>,
    /// How much of memory and swap together may be used.
    pub swap: Option<i64>,
    /// How much the kernel may use for it.
    pub kernel: Option<i64>,
    /// How much the kernel may use for its TCP buffers.
    pub kernel_tcp: Option<i64>,
    /// How readily memory is swapped, from 0 to 100.
    pub swappiness: Option<u64>,
    /// Whether processes wait, and are not killed, when the limit is reached.
    pub disable_oom_killer: Option<bool>,
    /// Whether the limit covers cgroups below this one.
    pub use_hierarchy: Option<bool>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

/// Limits of CPU time, and which CPUs. Times are in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// The weight against others when CPU time is short.
    pub shares: Option<u64>,
    /// The CPU time per period; -1 for no limit.
    pub quota: Option<i64>,
    /// The length of a period.
    pub period: Option<u64>,
    /// The real-time CPU time per period.
    pub realtime_runtime: Option<i64>,
    /// The length of a real-time period.
    pub realtime_period: Option<u64>,
    /// The CPUs to run on, such as `0-3,7`; empty if not set.
    pub cpus: String,
    /// The memory nodes to use, such as `0,1`; empty if not set.
    pub mems: String,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

/// The limit for huge pages of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HugepageLimit {
    /// The size, such as `2MB`.
    pub page_size: String,
    /// How much of them may be used, in bytes.
    pub limit: u64,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

/// The limit for processes and threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pids {
    /// How many there may be; -1 for no limit.
    pub limit: i64,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}
