//! The field numbers of the model types, and the implementations of `Encode` and `Decode`.
//!
//! Each implementation for encoding destructures its type completely, so that a new field does not
//! compile without a number. Tests compare the encoding of each type with that of its message.

use crate::codec::decode::{Decode, DecodeField, Reader};
use crate::codec::encode::{Encode, EncodeField, Writer};
use crate::model::{
    Adjustment, CdiDevice, Container, Cpu, CreateReply, Device, DeviceRule, EnvVar, Hook, Hooks, HugepageLimit, Image,
    IoPriority, LinuxAdjustment, LinuxContainer, LinuxPod, Memory, MemoryPolicy, Mount, Namespace, NetDevice, Pids,
    Pod, Rdt, Resources, Rlimit, Scheduler, Seccomp, SecurityProfile, Syscall, SyscallArg, User,
};

/// Encodes fields from the last to the first.
macro_rules! write_back {
    ($out:ident, $number:literal $field:ident $(, $($rest:tt)+)?) => {
        $(write_back!($out, $($rest)+);)?
        EncodeField::write($field, $number, $out);
    };
}

/// Implements `Encode` for types, from the numbers of their fields.
macro_rules! encode {
    ($($model:ident { $($number:literal $field:ident),+ $(,)? })+) => {
        $(impl Encode for $model {
            fn encode(&self, out: &mut Writer) {
                let Self { $($field,)+ unknown } = self;
                out.unknown(unknown);
                write_back!(out, $($number $field),+);
            }
        })+
    };
}

/// Implements `Decode` for types, from the numbers of their fields.
macro_rules! decode {
    ($($model:ident { $($number:literal $field:ident),+ $(,)? })+) => {
        $(impl Decode for $model {
            fn decode(&mut self, mut input: Reader<'_>) -> Option<()> {
                while let Some((number, kind)) = input.next_field() {
                    match number {
                        $($number => DecodeField::read(&mut self.$field, kind, &mut input)?,)+
                        _ => return None,
                    }
                }
                Some(())
            }
        })+
    };
}

/// Implements `Encode` and `Decode` for types, from the numbers of their fields.
macro_rules! both {
    ($($table:tt)+) => {
        encode! { $($table)+ }
        decode! { $($table)+ }
    };
}

encode! {
    Container {
        1 id, 2 pod_id, 3 name, 4 state, 5 labels, 6 annotations, 7 args, 8 env, 9 mounts, 10 hooks, 11 linux, 12 pid,
        13 rlimits, 14 created_at, 15 started_at, 16 finished_at, 17 exit_code, 18 status_reason, 19 status_message,
        20 cdi_devices, 21 user, 22 image
    }
    Pod {
        1 id, 2 name, 3 uid, 4 namespace, 5 labels, 6 annotations, 7 runtime_handler, 8 linux, 9 pid, 10 ips
    }
    LinuxPod { 1 overhead, 2 pod_resources, 3 cgroup_parent, 4 cgroups_path, 5 namespaces, 6 resources }
    LinuxContainer {
        1 namespaces, 2 devices, 3 resources, 4 oom_score_adj, 5 cgroups_path, 6 io_priority, 7 seccomp_profile,
        8 seccomp_policy, 9 sysctl, 10 net_devices, 11 scheduler, 12 rdt
    }
    Image { 1 name, 2 digest, 3 config_digest }
    User { 1 uid, 2 gid, 3 additional_gids }
    Namespace { 1 kind, 2 path }
    NetDevice { 1 name }
    IoPriority { 1 class, 2 priority }
    MemoryPolicy { 1 mode, 2 nodes, 3 flags }
    Rdt { 1 clos_id, 2 schemata, 3 enable_monitoring, 4 remove }
    Scheduler { 1 policy, 2 nice, 3 priority, 4 flags, 5 runtime, 6 deadline, 7 period }
    SecurityProfile { 1 kind, 2 localhost_ref }
    Seccomp {
        1 default_action, 2 default_errno, 3 architectures, 4 flags, 5 listener_path, 6 listener_metadata, 7 syscalls
    }
    Syscall { 1 names, 2 action, 3 errno_ret, 4 args }
    SyscallArg { 1 index, 2 value, 3 value_two, 4 op }
}

both! {
    Rlimit { 1 kind, 2 hard, 3 soft }
    Mount { 1 destination, 2 kind, 3 source, 4 options }
    Hooks { 1 prestart, 2 create_runtime, 3 create_container, 4 start_container, 5 poststart, 6 poststop }
    Hook { 1 path, 2 args, 3 env, 4 timeout }
    Device { 1 path, 2 kind, 3 major, 4 minor, 5 file_mode, 6 uid, 7 gid }
    DeviceRule { 1 allow, 2 kind, 3 major, 4 minor, 5 access }
    CdiDevice { 1 name }
    Resources {
        1 memory, 2 cpu, 3 hugepage_limits, 4 blockio_class, 5 rdt_class, 6 unified, 7 devices, 8 pids
    }
    Memory {
        1 limit, 2 reservation, 3 swap, 4 kernel, 5 kernel_tcp, 6 swappiness, 7 disable_oom_killer, 8 use_hierarchy
    }
    Cpu { 1 shares, 2 quota, 3 period, 4 realtime_runtime, 5 realtime_period, 6 cpus, 7 mems }
    HugepageLimit { 1 page_size, 2 limit }
    Pids { 1 limit }
}

// Adjustments with fields that plugins rarely change are decoded through their messages.
decode! {
    CreateReply { 1 adjustment }
    Adjustment {
        2 annotations, 3 mounts, 4 env, 5 hooks, 6 linux, 7 rlimits, 8 cdi_devices, 9 args
    }
    LinuxAdjustment { 1 devices, 2 resources, 3 cgroups_path, 4 oom_score_adj, 8 sysctl }
    EnvVar { 1 name, 2 value }
}
