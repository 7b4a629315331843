//! Resources, and how an update changes them.

use std::collections::BTreeMap;

use super::{DeviceRule, Unknown};

/// The resources of a container or pod (`LinuxResources` on the wire).
///
/// A value of `None` is not set, which is different from zero:
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
    /// The limits on memory.
    pub memory: Option<Memory>,
    /// The limits on CPU time, and the set of CPUs.
    pub cpu: Option<Cpu>,
    /// The limits on huge pages, one per page size.
    pub hugepage_limits: Vec<HugepageLimit>,
    /// The block I/O class, which is defined in the configuration of the runtime.
    pub blockio_class: Option<String>,
    /// The RDT class, for caches and memory bandwidth, which is defined in the configuration of the
    /// runtime.
    pub rdt_class: Option<String>,
    /// Settings of cgroup v2: names of files, and what to write into them.
    pub unified: BTreeMap<String, String>,
    /// The rules that allow or deny devices. Later rules win.
    pub devices: Vec<DeviceRule>,
    /// The limit on processes and threads.
    pub pids: Option<Pids>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl Resources {
    /// Returns the limits on memory, which are created if missing.
    pub fn memory_mut(&mut self) -> &mut Memory {
        self.memory.get_or_insert_default()
    }

    /// Returns the limits on CPU time and the set of CPUs, which are created if missing.
    pub fn cpu_mut(&mut self) -> &mut Cpu {
        self.cpu.get_or_insert_default()
    }

    /// Sets the limit on processes and threads. -1 stands for no limit.
    pub fn limit_pids(&mut self, limit: i64) {
        self.pids.get_or_insert_default().limit = limit;
    }

    /// Sets the limit on huge pages of one size, such as `2MB`, in bytes.
    pub fn limit_hugepages(&mut self, page_size: impl Into<String>, limit: u64) {
        let page_size = page_size.into();
        self.hugepage_limits.retain(|other| other.page_size != page_size);
        self.hugepage_limits.push(HugepageLimit { page_size, limit, unknown: Unknown::default() });
    }

    /// Applies `new` to these resources, as an [`Update`](super::Update) does.
    ///
    /// Values that are not set in `new` do not change. Unknown fields of `new` are ignored.
    ///
    /// ```
    /// use nri_proto::Resources;
    ///
    /// let (mut resources, mut new) = (Resources::default(), Resources::default());
    /// resources.cpu_mut().shares = Some(512);
    /// new.cpu_mut().quota = Some(50_000);
    /// resources.update(new);
    /// let cpu = resources.cpu_mut();
    /// assert_eq!((cpu.shares, cpu.quota), (Some(512), Some(50_000)));
    /// ```
    pub fn update(&mut self, new: Self) {
        let Self { memory, cpu, hugepage_limits, blockio_class, rdt_class, unified, devices, pids, unknown: _ } = new;
        if let Some(memory) = memory {
            self.memory_mut().update(memory);
        }
        if let Some(cpu) = cpu {
            self.cpu_mut().update(cpu);
        }
        for limit in hugepage_limits {
            self.hugepage_limits.retain(|other| other.page_size != limit.page_size);
            self.hugepage_limits.push(limit);
        }
        set(&mut self.blockio_class, blockio_class);
        set(&mut self.rdt_class, rdt_class);
        self.unified.extend(unified);
        self.devices.extend(devices);
        set(&mut self.pids, pids);
    }
}

/// Replaces `target` if `new` is set.
fn set<T>(target: &mut Option<T>, new: Option<T>) {
    if new.is_some() {
        *target = new;
    }
}

/// Replaces `target` if `new` is not empty.
fn set_text(target: &mut String, new: String) {
    if !new.is_empty() {
        *target = new;
    }
}

/// The limits on memory of a container. Amounts are in bytes; -1 stands for no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The limit on memory.
    pub limit: Option<i64>,
    /// The amount to which usage is reduced when memory is short (soft limit).
    pub reservation: Option<i64>,
    /// The limit on memory and swap together.
    pub swap: Option<i64>,
    /// The limit on kernel memory.
    pub kernel: Option<i64>,
    /// The limit on kernel memory for TCP buffers.
    pub kernel_tcp: Option<i64>,
    /// The tendency to swap memory, from 0 to 100.
    pub swappiness: Option<u64>,
    /// Whether processes wait instead of being killed when the limit is reached.
    pub disable_oom_killer: Option<bool>,
    /// Whether the limit includes child cgroups.
    pub use_hierarchy: Option<bool>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl Memory {
    fn update(&mut self, new: Self) {
        let Self {
            limit,
            reservation,
            swap,
            kernel,
            kernel_tcp,
            swappiness,
            disable_oom_killer,
            use_hierarchy,
            unknown: _,
        } = new;
        set(&mut self.limit, limit);
        set(&mut self.reservation, reservation);
        set(&mut self.swap, swap);
        set(&mut self.kernel, kernel);
        set(&mut self.kernel_tcp, kernel_tcp);
        set(&mut self.swappiness, swappiness);
        set(&mut self.disable_oom_killer, disable_oom_killer);
        set(&mut self.use_hierarchy, use_hierarchy);
    }
}

/// The limits on CPU time, and the set of CPUs, of a container. Times are in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// The weight relative to other containers when CPU time is short.
    pub shares: Option<u64>,
    /// The CPU time per period. -1 stands for no limit.
    pub quota: Option<i64>,
    /// The length of a period.
    pub period: Option<u64>,
    /// The real-time CPU time per period.
    pub realtime_runtime: Option<i64>,
    /// The length of a real-time period.
    pub realtime_period: Option<u64>,
    /// The CPUs to run on, such as `0-3,7`. Empty if not set.
    pub cpus: String,
    /// The memory nodes to use, such as `0,1`. Empty if not set.
    pub mems: String,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl Cpu {
    fn update(&mut self, new: Self) {
        let Self { shares, quota, period, realtime_runtime, realtime_period, cpus, mems, unknown: _ } = new;
        set(&mut self.shares, shares);
        set(&mut self.quota, quota);
        set(&mut self.period, period);
        set(&mut self.realtime_runtime, realtime_runtime);
        set(&mut self.realtime_period, realtime_period);
        set_text(&mut self.cpus, cpus);
        set_text(&mut self.mems, mems);
    }
}

/// The limit on huge pages of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HugepageLimit {
    /// The page size, such as `2MB`.
    pub page_size: String,
    /// The limit, in bytes.
    pub limit: u64,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

/// The limit on processes and threads of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pids {
    /// The maximum number. -1 stands for no limit.
    pub limit: i64,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_set(to: u64) -> Resources {
        let signed = Some(i64::try_from(to).unwrap());
        let mut resources = Resources {
            memory: Some(Memory {
                limit: signed,
                reservation: signed,
                swap: signed,
                kernel: signed,
                kernel_tcp: signed,
                swappiness: Some(to),
                disable_oom_killer: Some(to == 1),
                use_hierarchy: Some(to == 1),
                unknown: Unknown::default(),
            }),
            cpu: Some(Cpu {
                shares: Some(to),
                quota: signed,
                period: Some(to),
                realtime_runtime: signed,
                realtime_period: Some(to),
                cpus: to.to_string(),
                mems: to.to_string(),
                unknown: Unknown::default(),
            }),
            blockio_class: Some(to.to_string()),
            rdt_class: Some(to.to_string()),
            unified: [("memory.high".to_owned(), to.to_string())].into(),
            pids: Some(Pids { limit: 7, unknown: Unknown::default() }),
            ..Resources::default()
        };
        resources.limit_hugepages("2MB", to);
        resources
    }

    #[test]
    fn an_update_sets_all_that_is_set_in_it() {
        let mut resources = all_set(1);
        resources.update(all_set(2));
        assert_eq!(resources, all_set(2));
    }

    #[test]
    fn what_is_not_set_in_an_update_stays() {
        let mut resources = all_set(1);
        let nothing = Resources { memory: Some(Memory::default()), cpu: Some(Cpu::default()), ..Resources::default() };
        resources.update(nothing);
        assert_eq!(resources, all_set(1));
    }

    #[test]
    fn an_update_of_other_pages_and_files_is_beside_what_there_was() {
        let mut resources = all_set(1);
        let mut new = Resources { unified: [("io.weight".to_owned(), "5".to_owned())].into(), ..Resources::default() };
        new.limit_hugepages("1GB", 3);
        resources.update(new);
        assert_eq!((resources.hugepage_limits.len(), resources.unified.len()), (2, 2));
    }
}
