//! Properties that hold for all fields.

use nri_proto::{
    Adjustment, Args, ChangeMap, Cpu, Device, EnvVar, Hook, Hooks, HugepageLimit, LinuxAdjustment, Mount, Namespace,
    NetDevice, Pids, Resources, Rlimit,
};
use nri_proto::{api, arbitrary};
use proptest::prelude::*;
use protobuf::EnumOrUnknown;
use serde_json::{Value, json};

use super::host::Allowlist;
use super::{Host, SpecError, adjust, adjust_json};

/// Returns a part of a spec as containerd creates it for Kubernetes, with some unknown members.
fn spec() -> Value {
    json!({
        "ociVersion": "1.3.0",
        "org.example.future": {"b": 1, "a": [1.5, null, {}]},
        "process": {
            "user": {"uid": 0, "gid": 0, "additionalGids": [0]},
            "args": ["sh"],
            "env": ["PATH=/bin", "HOME=/"],
            "cwd": "/",
            "capabilities": {"bounding": ["CAP_CHOWN", "CAP_FUTURE"]},
            "future": true,
        },
        "root": {"path": "rootfs"},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc", "future": 1}],
        "annotations": {"z": "1", "a": "2"},
        "linux": {
            "future": [],
            "resources": {"devices": [{"allow": false, "access": "rwm"}], "future": {}},
            "namespaces": [{"type": "pid"}, {"type": "network", "path": "/netns"}],
            "maskedPaths": ["/proc/acpi"],
        },
    })
}

/// Returns a host that allows all changes.
fn open() -> Host {
    Host { allow: Allowlist::everything(), ..Host::default() }
}

/// Returns an adjustment that sets every field once.
fn everything() -> Adjustment {
    let text = str::to_owned;
    let mut adjustment = Adjustment {
        args: Args::set(["app"]).unwrap(),
        hooks: Some(Hooks { poststop: vec![Hook { path: text("/hook"), ..Hook::default() }], ..Hooks::default() }),
        rlimits: vec![Rlimit { kind: text("RLIMIT_CORE"), ..Rlimit::default() }],
        ..Adjustment::default()
    };
    adjustment.annotations.set("key", "value").unwrap();
    adjustment.mounts.set(Mount { destination: text("/data"), ..Mount::default() }).unwrap();
    adjustment.env.set(EnvVar::new("A", "1")).unwrap();
    let mut linux = LinuxAdjustment {
        resources: Some(Resources {
            cpu: Some(Cpu { shares: Some(2), ..Cpu::default() }),
            hugepage_limits: vec![HugepageLimit { page_size: text("2MB"), ..HugepageLimit::default() }],
            unified: [(text("cpu.idle"), text("1"))].into(),
            pids: Some(Pids { limit: 9, ..Pids::default() }),
            ..Resources::default()
        }),
        cgroups_path: text("/c"),
        oom_score_adj: Some(1),
        seccomp_policy: Some(nri_proto::Seccomp { default_action: text("SCMP_ACT_ALLOW"), ..Default::default() }),
        ..LinuxAdjustment::default()
    };
    linux.devices.set(Device { path: text("/dev/a"), kind: text("c"), ..Device::default() }).unwrap();
    linux.namespaces.set(Namespace { kind: text("time"), ..Namespace::default() }).unwrap();
    linux.sysctl.set("net.a", "1").unwrap();
    linux.net_devices.set("eth0", NetDevice::default()).unwrap();
    adjustment.linux = Some(linux);
    adjustment
}

#[test]
fn numbers_that_fit_in_64_bits_stay_exact_and_others_become_near_ones() {
    let mut adjustment = Adjustment::default();
    adjustment.env.set(EnvVar::new("A", "1")).unwrap();
    let check = |number: &str, expected: &str| {
        let spec = format!(r#"{{"future":{number}}}"#);
        let (adjusted, _) = adjust_json(&spec, &adjustment, &open()).unwrap();
        assert_eq!(adjusted, format!(r#"{{"future":{expected},"process":{{"env":["A=1"]}}}}"#));
    };
    for exact in ["18446744073709551615", "-9223372036854775808", "0.1", "1.5"] {
        check(exact, exact);
    }
    check("18446744073709551616", "1.8446744073709552e+19");
}

#[test]
fn what_nobody_knows_survives_in_its_place() {
    let mut adjusted = spec();
    adjust(&mut adjusted, &everything(), &open()).unwrap();
    for place in [
        "/org.example.future",
        "/process/future",
        "/process/capabilities",
        "/process/user",
        "/mounts/1/future",
        "/linux/future",
        "/linux/resources/future",
        "/linux/maskedPaths",
        "/root",
    ] {
        let (before, after) = (spec(), &adjusted);
        let before = before.pointer(place).or_else(|| before.pointer(&place.replace("/1/", "/0/")));
        assert_eq!(after.pointer(place), before, "{place}");
    }
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&adjusted)[..7], keys(&spec())[..7]);
    assert_eq!(keys(&adjusted["process"])[..6], keys(&spec()["process"])[..6]);
}

#[test]
fn what_comes_out_is_what_oci_calls_a_spec() {
    let mut adjusted = json!({"ociVersion": "1.3.0", "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/"}});
    adjust(&mut adjusted, &everything(), &open()).unwrap();
    let typed: oci_spec::runtime::Spec = serde_json::from_value(adjusted.clone()).unwrap();
    assert_eq!(typed.mounts().as_ref().unwrap().len(), 1);
    assert_eq!(typed.linux().as_ref().unwrap().devices().as_ref().unwrap().len(), 1);
}

#[test]
fn u17_a_spec_without_anything_is_adjusted_and_nothing_panics() {
    for spec in [json!({}), json!({"process": null, "linux": null, "mounts": null, "annotations": null, "hooks": null})]
    {
        let mut adjusted = spec;
        adjust(&mut adjusted, &everything(), &open()).unwrap();
        assert_eq!(adjusted["process"]["rlimits"][0]["type"], "RLIMIT_CORE");
        assert_eq!(adjusted["linux"]["seccomp"]["defaultAction"], "SCMP_ACT_ALLOW");
    }
}

#[test]
fn u17_a_spec_of_the_wrong_shape_is_refused_by_its_place() {
    for (spec, expected) in [
        (json!([]), "the document is not an object"),
        (json!({"process": 1}), "process is not an object"),
        (json!({"process": {"env": {}}}), "process.env is not a list"),
        (json!({"linux": {"resources": "x"}}), "linux.resources is not an object"),
        (json!({"linux": {"namespaces": {}}}), "linux.namespaces is not a list"),
        (json!({"mounts": true}), "mounts is not a list"),
        (json!({"annotations": []}), "annotations is not an object"),
        (json!({"hooks": {"poststop": 1}}), "hooks.poststop is not a list"),
    ] {
        let mut adjusted = spec.clone();
        let error = adjust(&mut adjusted, &everything(), &open()).unwrap_err();
        assert_eq!(error.to_string(), format!("could not adjust the spec: {expected}"));
        assert_eq!(adjusted, spec);
    }
    let error = adjust_json("{", &everything(), &open()).unwrap_err();
    assert!(matches!(error, SpecError::Read(_)));
}

#[test]
fn u13_to_remove_and_to_set_a_key_always_sets_it() {
    let spec = json!({"annotations": {"k": "0"}, "linux": {"sysctl": {"k": "0"}, "netDevices": {"k": {"name": "a"}}}});
    fn both<T: Default>() -> ChangeMap<T> {
        let mut changes = ChangeMap::new();
        changes.remove("k");
        changes.set("k", T::default()).unwrap();
        changes
    }
    let linux = LinuxAdjustment { sysctl: both(), net_devices: both(), ..LinuxAdjustment::default() };
    let adjustment = Adjustment { annotations: both(), linux: Some(linux), ..Adjustment::default() };
    let mut texts: Vec<String> =
        (0..1000).map(|_| adjust_json(&spec.to_string(), &adjustment, &open()).unwrap().0).collect();
    texts.dedup();
    let expected = json!({"annotations": {"k": ""}, "linux": {"sysctl": {"k": ""}, "netDevices": {"k": {}}}});
    assert_eq!(texts, [expected.to_string()]);
}

/// Go's generator applies lists entry by entry, and would remove these entries. Its merge, like
/// ours, applies removals first.
#[test]
fn an_entry_that_is_set_and_then_removed_in_one_adjustment_is_set() {
    let variable = |key: &str| api::KeyValue { key: key.to_owned(), ..Default::default() };
    let mount = |destination: &str| api::Mount { destination: destination.to_owned(), ..Default::default() };
    let device = |path: &str| api::LinuxDevice { path: path.to_owned(), type_: "p".to_owned(), ..Default::default() };
    let namespace = |type_: &str| api::LinuxNamespace { type_: type_.to_owned(), ..Default::default() };
    let linux = api::LinuxContainerAdjustment {
        devices: ["/dev/a", "-/dev/a"].map(device).into(),
        namespaces: ["ipc", "-ipc"].map(namespace).into(),
        ..Default::default()
    };
    let message = api::ContainerAdjustment {
        env: ["HOME", "-HOME"].map(variable).into(),
        mounts: ["/a", "-/a"].map(mount).into(),
        linux: Some(linux).into(),
        ..Default::default()
    };
    let mut adjusted =
        json!({"process": {"env": ["HOME=/"]}, "linux": {"namespaces": [{"type": "ipc", "path": "/x"}]}});
    adjust(&mut adjusted, &message.into(), &open()).unwrap();
    assert_eq!(adjusted["process"]["env"], json!(["HOME="]));
    assert_eq!(adjusted["mounts"], json!([{"destination": "/a"}]));
    assert_eq!(adjusted["linux"]["namespaces"], json!([{"type": "ipc"}]));
    assert_eq!(adjusted["linux"]["devices"][0]["path"], "/dev/a");
}

#[test]
fn an_error_leaves_the_spec_as_it_is() {
    let mut adjustment = everything();
    // Rlimits are adjusted last.
    adjustment.rlimits.push(Rlimit::default());
    let mut adjusted = spec();
    adjust(&mut adjusted, &adjustment, &open()).unwrap_err();
    assert_eq!(adjusted.to_string(), spec().to_string());
}

#[test]
fn numbers_without_a_name_are_refused() {
    let check = |linux: api::LinuxContainerAdjustment, expected: &str| {
        let message = api::ContainerAdjustment { linux: Some(linux).into(), ..Default::default() };
        let error = adjust(&mut spec(), &message.into(), &open()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    let mut linux = api::LinuxContainerAdjustment::default();
    linux.io_priority.mut_or_insert_default().class = EnumOrUnknown::from_i32(99);
    check(linux, "cannot adjust IoPriority: the class is unknown");
    let mut linux = api::LinuxContainerAdjustment::default();
    linux.scheduler.mut_or_insert_default().policy = EnumOrUnknown::from_i32(99);
    check(linux, "cannot adjust LinuxSched: the policy is unknown");
    let mut linux = api::LinuxContainerAdjustment::default();
    let scheduler = linux.scheduler.mut_or_insert_default();
    scheduler.policy = EnumOrUnknown::from_i32(1);
    scheduler.flags.push(EnumOrUnknown::from_i32(99));
    check(linux, "cannot adjust LinuxSched: a flag is unknown");
    let mut linux = api::LinuxContainerAdjustment::default();
    linux.memory_policy.mut_or_insert_default().mode = EnumOrUnknown::from_i32(99);
    check(linux, "cannot adjust MemoryPolicy: the mode is unknown");
}

#[test]
fn an_adjustment_of_nothing_changes_nothing() {
    let mut adjusted = spec();
    adjust(&mut adjusted, &Adjustment::default(), &open()).unwrap();
    let empty = Adjustment { linux: Some(LinuxAdjustment::default()), ..Adjustment::default() };
    adjust(&mut adjusted, &empty, &open()).unwrap();
    assert_eq!(adjusted.to_string(), spec().to_string());
}

proptest! {
    #[test]
    fn an_adjustment_is_applied_as_a_whole_or_not_at_all_and_always_alike(adjustment in arbitrary::adjustment()) {
        let mut adjusted = spec();
        let outcome = adjust(&mut adjusted, &adjustment, &open());
        if outcome.is_err() {
            prop_assert_eq!(adjusted.to_string(), spec().to_string());
        }
        let text = adjust_json(&spec().to_string(), &adjustment, &open());
        prop_assert_eq!(text.map(|(text, _)| text).ok(), outcome.ok().map(|_| adjusted.to_string()));
    }
}
