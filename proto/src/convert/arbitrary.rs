//! Proptest strategies for all model types.
//!
//! Lists and strings are short. Enums can have numbers without a name, and all types can have
//! unknown fields.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use protobuf::{Enum, EnumOrUnknown, UnknownFields};

use super::Translate;
use crate::model::*;
use crate::schema::api;

/// Defines a strategy for a model type from strategies for its fields. All fields but `unknown`
/// must be listed.
macro_rules! strategy {
    ($name:ident -> $model:ident { $($field:ident: $strategy:expr),+ $(,)? }) => {
        #[doc = concat!("Generates any [`", stringify!($model), "`].")]
        pub fn $name() -> BoxedStrategy<$model> {
            let _all_are_named = |$model { $($field: _,)+ unknown: _ }: $model| ();
            let value = unknown().prop_map(|unknown| $model { unknown, ..$model::default() }).boxed();
            $(let value = (value, $strategy).prop_map(|(mut value, $field)| {
                value.$field = $field;
                value
            }).boxed();)+
            value
        }
    };
}

strategy!(pod -> Pod {
    id: text(),
    name: text(),
    uid: text(),
    namespace: text(),
    labels: texts_by_name(),
    annotations: texts_by_name(),
    runtime_handler: text(),
    linux: option::of(linux_pod()),
    pid: any::<u32>(),
    ips: texts(),
});

strategy!(linux_pod -> LinuxPod {
    overhead: option::of(resources()),
    pod_resources: option::of(resources()),
    cgroup_parent: text(),
    cgroups_path: text(),
    namespaces: few(namespace()),
    resources: option::of(resources()),
});

strategy!(container -> Container {
    id: text(),
    pod_id: text(),
    name: text(),
    state: number::<api::ContainerState, _>(),
    labels: texts_by_name(),
    annotations: texts_by_name(),
    args: texts(),
    env: texts(),
    mounts: few(mount()),
    hooks: option::of(hooks()),
    linux: option::of(linux_container()),
    pid: any::<u32>(),
    rlimits: few(rlimit()),
    created_at: any::<i64>(),
    started_at: any::<i64>(),
    finished_at: any::<i64>(),
    exit_code: any::<i32>(),
    status_reason: text(),
    status_message: text(),
    cdi_devices: few(cdi_device()),
    user: option::of(user()),
    image: option::of(image()),
});

strategy!(image -> Image { name: text(), digest: text(), config_digest: text() });

strategy!(user -> User { uid: any::<u32>(), gid: any::<u32>(), additional_gids: few(any::<u32>()) });

strategy!(rlimit -> Rlimit { kind: text(), hard: any::<u64>(), soft: any::<u64>() });

strategy!(mount -> Mount { destination: text(), kind: text(), source: text(), options: texts() });

strategy!(hooks -> Hooks {
    prestart: few(hook()),
    create_runtime: few(hook()),
    create_container: few(hook()),
    start_container: few(hook()),
    poststart: few(hook()),
    poststop: few(hook()),
});

strategy!(hook -> Hook { path: text(), args: texts(), env: texts(), timeout: any::<Option<i64>>() });

strategy!(linux_container -> LinuxContainer {
    namespaces: few(namespace()),
    devices: few(device()),
    resources: option::of(resources()),
    oom_score_adj: any::<Option<i64>>(),
    cgroups_path: text(),
    io_priority: option::of(io_priority()),
    seccomp_profile: option::of(security_profile()),
    seccomp_policy: option::of(seccomp()),
    sysctl: texts_by_name(),
    net_devices: by_name(net_device()),
    scheduler: option::of(scheduler()),
    rdt: option::of(rdt()),
});

strategy!(namespace -> Namespace { kind: text(), path: text() });

strategy!(device -> Device {
    path: text(),
    kind: text(),
    major: any::<i64>(),
    minor: any::<i64>(),
    file_mode: any::<Option<u32>>(),
    uid: any::<Option<u32>>(),
    gid: any::<Option<u32>>(),
});

strategy!(device_rule -> DeviceRule {
    allow: any::<bool>(),
    kind: text(),
    major: any::<Option<i64>>(),
    minor: any::<Option<i64>>(),
    access: text(),
});

strategy!(cdi_device -> CdiDevice { name: text() });

strategy!(net_device -> NetDevice { name: text() });

strategy!(resources -> Resources {
    memory: option::of(memory()),
    cpu: option::of(cpu()),
    hugepage_limits: few(hugepage_limit()),
    blockio_class: option::of(text()),
    rdt_class: option::of(text()),
    unified: texts_by_name(),
    devices: few(device_rule()),
    pids: option::of(pids()),
});

strategy!(memory -> Memory {
    limit: any::<Option<i64>>(),
    reservation: any::<Option<i64>>(),
    swap: any::<Option<i64>>(),
    kernel: any::<Option<i64>>(),
    kernel_tcp: any::<Option<i64>>(),
    swappiness: any::<Option<u64>>(),
    disable_oom_killer: any::<Option<bool>>(),
    use_hierarchy: any::<Option<bool>>(),
});

strategy!(cpu -> Cpu {
    shares: any::<Option<u64>>(),
    quota: any::<Option<i64>>(),
    period: any::<Option<u64>>(),
    realtime_runtime: any::<Option<i64>>(),
    realtime_period: any::<Option<u64>>(),
    cpus: text(),
    mems: text(),
});

strategy!(hugepage_limit -> HugepageLimit { page_size: text(), limit: any::<u64>() });

strategy!(pids -> Pids { limit: any::<i64>() });

strategy!(io_priority -> IoPriority { class: number::<api::IOPrioClass, _>(), priority: any::<i32>() });

strategy!(scheduler -> Scheduler {
    policy: number::<api::LinuxSchedulerPolicy, _>(),
    nice: any::<i32>(),
    priority: any::<i32>(),
    flags: few(number::<api::LinuxSchedulerFlag, _>()),
    runtime: any::<u64>(),
    deadline: any::<u64>(),
    period: any::<u64>(),
});

strategy!(security_profile -> SecurityProfile {
    kind: number::<api::security_profile::ProfileType, _>(),
    localhost_ref: text(),
});

strategy!(seccomp -> Seccomp {
    default_action: text(),
    default_errno: any::<Option<u32>>(),
    architectures: texts(),
    flags: texts(),
    listener_path: text(),
    listener_metadata: text(),
    syscalls: few(syscall()),
});

strategy!(syscall -> Syscall {
    names: texts(),
    action: text(),
    errno_ret: any::<Option<u32>>(),
    args: few(syscall_arg()),
});

strategy!(syscall_arg -> SyscallArg {
    index: any::<u32>(),
    value: any::<u64>(),
    value_two: any::<u64>(),
    op: text(),
});

strategy!(rdt -> Rdt {
    clos_id: option::of(text()),
    schemata: option::of(texts()),
    enable_monitoring: any::<Option<bool>>(),
    remove: any::<bool>(),
});

strategy!(memory_policy -> MemoryPolicy {
    mode: number::<api::MpolMode, _>(),
    nodes: text(),
    flags: few(number::<api::MpolFlag, _>()),
});

strategy!(adjustment -> Adjustment {
    annotations: changes_by_name(text()),
    mounts: changes(mount()),
    env: changes(env_var()),
    hooks: option::of(hooks()),
    linux: option::of(linux_adjustment()),
    rlimits: few(rlimit()),
    cdi_devices: few(cdi_device()),
    args: args(),
});

strategy!(linux_adjustment -> LinuxAdjustment {
    devices: changes(device()),
    resources: option::of(resources()),
    cgroups_path: text(),
    oom_score_adj: any::<Option<i64>>(),
    io_priority: option::of(io_priority()),
    seccomp_policy: option::of(seccomp()),
    namespaces: changes(namespace()),
    sysctl: changes_by_name(text()),
    net_devices: changes_by_name(net_device()),
    scheduler: option::of(scheduler()),
    rdt: option::of(rdt()),
    memory_policy: option::of(memory_policy()),
});

strategy!(env_var -> EnvVar { name: text(), value: text() });

strategy!(update -> Update {
    container_id: text(),
    linux: option::of(linux_update()),
    ignore_failure: any::<bool>(),
});

strategy!(linux_update -> LinuxUpdate { resources: option::of(resources()) });

strategy!(eviction -> Eviction { container_id: text(), reason: text() });

strategy!(create_reply -> CreateReply {
    adjustment: option::of(adjustment()),
    updates: few(update()),
    evictions: few(eviction()),
});

strategy!(update_reply -> UpdateReply { updates: few(update()), evictions: few(eviction()) });

strategy!(stop_reply -> StopReply { updates: few(update()) });

strategy!(proposal -> Proposal {
    pod: option::of(pod()),
    container: option::of(container()),
    adjustment: option::of(adjustment()),
    updates: few(update()),
    owners: option::of(owners()),
    plugins: few(plugin_instance()),
});

strategy!(plugin_instance -> PluginInstance { name: text(), index: text() });

strategy!(verdict -> Verdict { reject: any::<bool>(), reason: text() });

strategy!(owners -> Owners { containers: by_name(field_owners()) });

strategy!(field_owners -> FieldOwners {
    simple: btree_map(field(), owner(), 0..3),
    compound: btree_map(field(), entry_owners(), 0..3),
});

strategy!(entry_owners -> EntryOwners { entries: by_name(owner()) });

strategy!(failure_policy -> FailurePolicy { fail_request: any::<bool>(), keep_connected: any::<bool>() });

/// Generates unknown fields, in most cases none.
pub fn unknown() -> impl Strategy<Value = Unknown> {
    option::weighted(0.2, (1000..1004u32, any::<u64>(), text())).prop_map(|field| {
        let mut fields = UnknownFields::new();
        if let Some((number, varint, bytes)) = field {
            fields.add_varint(number, varint);
            fields.add_length_delimited(number + 1, bytes.into_bytes());
        }
        Unknown::new(fields)
    })
}

/// Generates any changes to a list. There are few keys, so that some keys change twice.
pub fn changes<S>(values: S) -> BoxedStrategy<ChangeList<S::Value>>
where
    S: Strategy + 'static,
    S::Value: Keyed + Clone,
{
    vec((0..3, values), 0..5)
        .prop_map(|edits| {
            let mut changes = ChangeList::new();
            for (how, value) in edits {
                // A key with a leading dash cannot be set and changes nothing.
                match how {
                    0 => _ = changes.set(value),
                    1 => _ = changes.replace(value),
                    _ => changes.remove(value.key()),
                }
            }
            changes
        })
        .boxed()
}

/// Generates any changes to a map.
pub fn changes_by_name<S>(values: S) -> BoxedStrategy<ChangeMap<S::Value>>
where
    S: Strategy + 'static,
{
    vec((0..3, text(), values), 0..5)
        .prop_map(|edits| {
            let mut changes = ChangeMap::new();
            for (how, key, value) in edits {
                match how {
                    0 => _ = changes.set(key, value),
                    1 => _ = changes.replace(key, value),
                    _ => changes.remove(key),
                }
            }
            changes
        })
        .boxed()
}

/// Generates any owner, including text that is not a plugin id.
pub fn owner() -> impl Strategy<Value = Owner> {
    "[-,0-9a-z]{0,6}".prop_map(|text: String| text.translate())
}

/// Generates any field. Most have a name.
pub fn field() -> impl Strategy<Value = Field> {
    number::<api::Field, _>()
}

/// Generates any change of the arguments.
pub fn args() -> impl Strategy<Value = Args> {
    (any::<bool>(), texts())
        .prop_map(|(set, list)| if set { Args::set(list).unwrap_or_default() } else { Args::replace(list) })
}

/// Generates any value of an enum. Most have a name.
fn number<E: Enum, W: std::fmt::Debug>() -> impl Strategy<Value = W>
where
    EnumOrUnknown<E>: Translate<W>,
{
    prop_oneof![4 => 0..8, 1 => any::<i32>()].prop_map(|number| EnumOrUnknown::<E>::from_i32(number).translate())
}

fn few<S: Strategy>(items: S) -> impl Strategy<Value = Vec<S::Value>> {
    vec(items, 0..3)
}

fn by_name<S: Strategy>(items: S) -> impl Strategy<Value = BTreeMap<String, S::Value>> {
    btree_map(text(), items, 0..3)
}

/// Generates a short string. A regex pattern would be parsed again for each string.
fn text() -> impl Strategy<Value = String> {
    const LETTERS: [char; 12] = ['-', '=', '/', 'a', 'b', 'c', 'm', 'n', 'x', 'y', 'z', '\u{e4}'];
    vec(select(&LETTERS[..]), 0..5).prop_map(String::from_iter)
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    few(text())
}

fn texts_by_name() -> impl Strategy<Value = BTreeMap<String, String>> {
    by_name(text())
}
