use nri_proto::{Adjustment, Cpu, LinuxAdjustment, Memory, Resources};

/// A filter that keeps a part of a reply for each bit that is set, so that a reply changes few
/// things.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sieve(pub(super) u64);

impl Sieve {
    fn part<T: Default>(&mut self, part: &mut T) {
        if self.0 & 1 == 0 {
            *part = T::default();
        }
        self.0 = self.0.rotate_right(1);
    }

    pub(super) fn adjustment(&mut self, adjustment: &mut Adjustment) {
        let Adjustment { annotations, mounts, env, hooks, linux, rlimits, cdi_devices, args, unknown: _ } = adjustment;
        self.part(annotations);
        self.part(mounts);
        self.part(env);
        self.part(hooks);
        self.part(rlimits);
        self.part(cdi_devices);
        self.part(args);
        if let Some(linux) = linux {
            self.linux(linux);
        }
    }

    fn linux(&mut self, linux: &mut LinuxAdjustment) {
        let LinuxAdjustment {
            devices,
            resources,
            cgroups_path,
            oom_score_adj,
            io_priority,
            seccomp_policy,
            namespaces,
            sysctl,
            net_devices,
            scheduler,
            rdt,
            memory_policy,
            unknown: _,
        } = linux;
        self.part(devices);
        self.part(cgroups_path);
        self.part(oom_score_adj);
        self.part(io_priority);
        self.part(seccomp_policy);
        self.part(namespaces);
        self.part(sysctl);
        self.part(net_devices);
        self.part(scheduler);
        self.part(rdt);
        self.part(memory_policy);
        if let Some(resources) = resources {
            self.resources(resources);
        }
    }

    pub(super) fn resources(&mut self, resources: &mut Resources) {
        let Resources { memory, cpu, hugepage_limits, blockio_class, rdt_class, unified, devices, pids, unknown: _ } =
            resources;
        self.part(hugepage_limits);
        self.part(blockio_class);
        self.part(rdt_class);
        self.part(unified);
        self.part(devices);
        self.part(pids);
        if let Some(memory) = memory {
            self.memory(memory);
        }
        if let Some(cpu) = cpu {
            self.cpu(cpu);
        }
    }

    fn memory(&mut self, memory: &mut Memory) {
        let Memory {
            limit,
            reservation,
            swap,
            kernel,
            kernel_tcp,
            swappiness,
            disable_oom_killer,
            use_hierarchy,
            unknown: _,
        } = memory;
        for number in [limit, reservation, swap, kernel, kernel_tcp] {
            self.part(number);
        }
        self.part(swappiness);
        self.part(disable_oom_killer);
        self.part(use_hierarchy);
    }

    fn cpu(&mut self, cpu: &mut Cpu) {
        let Cpu { shares, quota, period, realtime_runtime, realtime_period, cpus, mems, unknown: _ } = cpu;
        for number in [shares, period, realtime_period] {
            self.part(number);
        }
        for number in [quota, realtime_runtime] {
            self.part(number);
        }
        self.part(cpus);
        self.part(mems);
    }
}
