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

    /// Sets what is set in `new`, as an [`Update`](super::Update) of a container that has these. What is not set there stays, and fields that we do not know are left out.
    ///
    /// ```
    /// use nri_proto::Resources;
    ///
    /// let (mut resources, mut new) = (Resources::default(), Resources::default());
    /// resources.cpu_mut().shares = Some(512);
    /// new.cpu_mut().quota = Some(50_000);
    /// resources.update(new);
    /// assert_eq!((resources.cpu_mut().shares, resources.cpu_mut().quota), (Some(512), Some(50_000)));
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

/// Sets what there is a new value for.
fn set<T>(target: &mut Option<T>, new: Option<T>) {
    if new.is_some() {
        *target = new;
    }
}

/// The same for what is empty if it is not set.
fn set_text(target: &mut String, new: String) {
    if !new.is_empty() {
        *target = new;
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
