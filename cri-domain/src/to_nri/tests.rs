use std::sync::Arc;

use nri_proto::{
    CdiDevice, Container, ContainerState, Hook, Image, IoPriority, IoPriorityClass, LinuxContainer, Namespace, Pids,
    Pod, ProfileKind, Resources, Rlimit, SchedulerFlag, SchedulerPolicy, SecurityProfile, User,
};
use serde_json::{Value, json};

use super::*;
use crate::generator::{Host, adjust};
use crate::model::{
    ContainerConfig, ContainerRecord, ContainerStatus, Exit, PodConfig, PodRecord, PodRef, PodState, PodStatus,
    SeccompRequest, ServerSettings,
};

fn texts<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, String> {
    entries.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn seen(record: &ContainerRecord) -> Container {
    container(record, &ServerSettings::default())
}

fn with_spec(spec: Value) -> Container {
    seen(&ContainerRecord { spec: Some(Arc::new(spec)), ..ContainerRecord::default() })
}

fn linux_of(spec: Value) -> LinuxContainer {
    with_spec(spec).linux.unwrap()
}

#[test]
fn a_pod_that_is_not_known_is_its_id() {
    let unknown = pod(&PodRef::Unknown { id: "p".to_owned() });
    assert_eq!(unknown, Pod { id: "p".to_owned(), ..Pod::default() });
    assert_eq!(unknown.linux, None);
}

#[test]
fn a_pod_is_made_of_config_spec_and_status() {
    let spec = json!({
        "annotations": {"both": "spec", "spec": "1"},
        "linux": {
            "cgroupsPath": "/kubepods/pod1/sandbox",
            "namespaces": [{"type": "network", "path": "/run/netns/1"}, {"type": "ipc"}],
            "resources": {"cpu": {"shares": 2}},
        },
    });
    let resources = Resources { pids: Some(Pids { limit: 9, ..Pids::default() }), ..Resources::default() };
    let record = PodRecord {
        id: "1".to_owned(),
        config: PodConfig {
            name: "web".to_owned(),
            uid: "u".to_owned(),
            namespace: "shop".to_owned(),
            labels: texts([("both", "config"), ("config", "1")]),
            annotations: texts([("both", "config"), ("config", "1")]),
            runtime_handler: "kata".to_owned(),
            cgroup_parent: "/kubepods/pod1".to_owned(),
            overhead: Some(Resources::default()),
            resources: Some(resources.clone()),
        },
        spec: Some(Arc::new(spec)),
        status: PodStatus { state: PodState::Ready, pid: 7, ips: vec!["10.0.0.1".to_owned()], network_is_gone: false },
        labels: texts([("both", "server")]),
    };
    let seen = pod(&record.clone().into());
    assert_eq!((&*seen.id, &*seen.name, &*seen.uid, &*seen.namespace), ("1", "web", "u", "shop"));
    assert_eq!(seen.labels, texts([("both", "server"), ("config", "1")]));
    assert_eq!(seen.annotations, texts([("both", "spec"), ("config", "1"), ("spec", "1")]));
    assert_eq!((&*seen.runtime_handler, seen.pid, &seen.ips[..]), ("kata", 7, &["10.0.0.1".to_owned()][..]));
    let linux = seen.linux.unwrap();
    assert_eq!((&*linux.cgroup_parent, &*linux.cgroups_path), ("/kubepods/pod1", "/kubepods/pod1/sandbox"));
    assert_eq!((linux.overhead, linux.pod_resources), (Some(Resources::default()), Some(resources)));
    assert_eq!(linux.resources.unwrap().cpu.unwrap().shares, Some(2));
    assert_eq!(linux.namespaces, [Namespace::new("network", "/run/netns/1"), Namespace::new("ipc", "")]);

    let mut stopped = record;
    stopped.status.network_is_gone = true;
    assert_eq!(pod(&stopped.into()).linux.unwrap().namespaces, [Namespace::new("ipc", "")]);
}

#[test]
fn a_network_namespace_that_nobody_can_join_is_not_shown() {
    let spec = json!({"linux": {"namespaces": [{"type": "network"}]}});
    let record = PodRecord { spec: Some(Arc::new(spec)), ..PodRecord::default() };
    assert_eq!(pod(&record.into()).linux.unwrap().namespaces, []);
}

#[test]
fn a_container_is_what_the_spec_says_and_without_one_what_was_asked_for() {
    let memory = |limit| Resources {
        memory: Some(nri_proto::Memory { limit: Some(limit), ..nri_proto::Memory::default() }),
        ..Resources::default()
    };
    let config = ContainerConfig {
        name: "app".to_owned(),
        annotations: texts([("both", "config"), ("config", "1")]),
        args: vec!["asked".to_owned()],
        env: vec!["ASKED=1".to_owned()],
        mounts: vec![nri_proto::Mount::bind("/a", "/b", ["ro"])],
        resources: Some(memory(1)),
        oom_score_adj: Some(5),
        ..ContainerConfig::default()
    };
    let mut record =
        ContainerRecord { id: "c".to_owned(), pod_id: "p".to_owned(), config, ..ContainerRecord::default() };
    let asked = seen(&record);
    assert_eq!((&asked.args[..], &asked.env[..]), (&["asked".to_owned()][..], &["ASKED=1".to_owned()][..]));
    let linux = asked.linux.unwrap();
    assert_eq!((asked.mounts.len(), linux.oom_score_adj, linux.resources), (1, Some(5), Some(memory(1))));

    record.spec = Some(Arc::new(json!({
        // A plugin that changes annotations cannot change the pod of the container.
        "annotations": {"both": "spec", "io.kubernetes.cri.sandbox-id": "other", "io.kubernetes.cri.container-name": "x"},
        "process": {"args": ["made"]},
        "linux": {"resources": {"memory": {"limit": 2}}},
    })));
    let made = seen(&record);
    assert_eq!((&*made.id, &*made.pod_id, &*made.name), ("c", "p", "app"));
    assert_eq!((made.annotation("both"), made.annotation("config")), (Some("spec"), Some("1")));
    assert_eq!((&made.args[..], &made.env[..]), (&["made".to_owned()][..], &[][..]));
    let linux = made.linux.unwrap();
    assert_eq!((made.mounts.len(), linux.oom_score_adj, linux.resources), (0, None, Some(memory(2))));
}

#[test]
fn everything_in_a_spec_has_its_word() {
    let hook = json!([{"path": "/h", "args": ["h"], "env": ["A=1"], "timeout": 3}]);
    let hooks = json!({
        "prestart": hook, "createRuntime": hook, "createContainer": hook, "startContainer": hook, "poststart": hook,
        "poststop": hook,
    });
    let spec = json!({
        "hooks": hooks,
        "process": {
            "user": {"uid": 1, "gid": 2, "additionalGids": [3, 4]},
            "rlimits": [{"type": "RLIMIT_NOFILE", "soft": 1, "hard": 2}],
            "ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 4},
            "scheduler": {"policy": "SCHED_FIFO", "nice": -1, "priority": 10, "flags": ["SCHED_FLAG_RESET_ON_FORK"],
                "runtime": 1, "deadline": 2, "period": 3},
        },
        "linux": {
            "devices": [{"path": "/dev/a", "type": "c", "major": 1, "minor": 3, "fileMode": 420, "uid": 0, "gid": 5}],
            "sysctl": {"net.a": "1"},
            "netDevices": {"eth0": {"name": "in"}, "eth1": {}},
            "intelRdt": {"closID": "gold", "schemata": ["L3:0=f"], "enableMonitoring": true},
            "seccomp": {"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 38, "architectures": ["SCMP_ARCH_X86"],
                "flags": ["F"], "listenerPath": "/l", "listenerMetadata": "m", "syscalls": [{"names": ["read"],
                "action": "SCMP_ACT_ALLOW", "errnoRet": 1,
                "args": [{"index": 1, "value": 2, "valueTwo": 3, "op": "SCMP_CMP_EQ"}]}]},
            "resources": {"hugepageLimits": [{"pageSize": "2MB", "limit": 7}], "unified": {"memory.high": "max"},
                "devices": [{"allow": true, "type": "c", "major": 1, "access": "rwm"}], "pids": {"limit": 4}},
        },
    });
    let seen = with_spec(spec);
    let hook = Hook { env: vec!["A=1".to_owned()], timeout: Some(3), ..Hook::new("/h", ["h"]) };
    let nri_proto::Hooks {
        prestart,
        create_runtime,
        create_container,
        start_container,
        poststart,
        poststop,
        unknown: _,
    } = seen.hooks.unwrap();
    for list in [prestart, create_runtime, create_container, start_container, poststart, poststop] {
        assert_eq!(list, std::slice::from_ref(&hook));
    }
    assert_eq!(seen.user, Some(User { uid: 1, gid: 2, additional_gids: vec![3, 4], ..User::default() }));
    assert_eq!(seen.rlimits, [Rlimit::new("RLIMIT_NOFILE", 1, 2)]);
    let linux = seen.linux.unwrap();
    assert_eq!(linux.io_priority, Some(IoPriority::new(IoPriorityClass::BestEffort, 4)));
    let scheduler = linux.scheduler.unwrap();
    assert_eq!((scheduler.policy, scheduler.nice, scheduler.period), (SchedulerPolicy::Fifo, -1, 3));
    assert_eq!(scheduler.flags, [SchedulerFlag::ResetOnFork]);
    let device = &linux.devices[0];
    assert_eq!((&*device.path, device.minor, device.file_mode, device.gid), ("/dev/a", 3, Some(0o644), Some(5)));
    assert_eq!((&linux.sysctl["net.a"], &linux.net_devices["eth0"].name), (&"1".to_owned(), &"in".to_owned()));
    assert_eq!(linux.net_devices["eth1"].name, "");
    let rdt = linux.rdt.unwrap();
    assert_eq!((rdt.clos_id.as_deref(), rdt.enable_monitoring), (Some("gold"), Some(true)));
    let seccomp = linux.seccomp_policy.unwrap();
    assert_eq!((seccomp.default_errno, seccomp.syscalls[0].args[0].value_two), (Some(38), 3));
    let resources = linux.resources.unwrap();
    assert_eq!((resources.hugepage_limits[0].limit, resources.pids.unwrap().limit), (7, 4));
    assert_eq!((resources.devices[0].major, resources.devices[0].minor), (Some(1), None));
    assert_eq!(resources.unified["memory.high"], "max");
}

#[test]
fn a_spec_of_any_shape_is_read() {
    for spec in [json!(null), json!([]), json!({"process": []}), json!({"process": {"args": {}, "rlimits": [1, {}]}})] {
        assert_eq!(with_spec(spec).args, Vec::<String>::new());
    }
    let linux = linux_of(json!({"linux": {"resources": 1, "namespaces": [{}, 1], "devices": "x", "seccomp": []}}));
    assert_eq!((linux.resources, linux.namespaces.len(), linux.seccomp_policy), (None, 0, None));
}

#[test]
fn d11_a_user_whose_number_does_not_fit_is_nobody_and_not_root() {
    for uid in [json!(4_294_967_296_u64), json!(-1), json!("0"), json!(1.5)] {
        assert_eq!(with_spec(json!({"process": {"user": {"uid": uid, "gid": 0}}})).user, None, "{uid}");
    }
    assert!(with_spec(json!({"process": {"user": {"uid": u32::MAX, "gid": 0}}})).user.is_some());
}

#[test]
fn an_end_is_told_with_its_reason() {
    let check = |exit: Exit, reason: &str| {
        let mut status = ContainerStatus {
            state: ContainerState::Running,
            pid: 9,
            created_at: 1,
            started_at: 2,
            ..ContainerStatus::default()
        };
        status.exited(exit);
        let seen = seen(&ContainerRecord { status, ..ContainerRecord::default() });
        assert_eq!((seen.state, seen.pid, &*seen.status_reason), (ContainerState::Stopped, 0, reason));
        assert_eq!((seen.created_at, seen.started_at, seen.finished_at), (1, 2, 3));
        seen
    };
    check(Exit { at: 3, ..Exit::default() }, "Completed");
    check(Exit { at: 3, code: 1, ..Exit::default() }, "Error");
    let killed = Exit { at: 3, code: 137, reason: "OOMKilled".to_owned(), message: "memory ran out".to_owned() };
    let seen = check(killed, "OOMKilled");
    assert_eq!((seen.exit_code, &*seen.status_message), (137, "memory ran out"));
}

#[test]
fn cdi_devices_are_also_those_that_annotations_ask_for() {
    let config = ContainerConfig {
        cdi_devices: vec!["v.com/gpu=0".to_owned()],
        annotations: texts([("cdi.k8s.io/plugin_1", "v.com/gpu=1,v.com/gpu=0, "), ("other", "v.com/gpu=2")]),
        ..ContainerConfig::default()
    };
    let seen = seen(&ContainerRecord { config, ..ContainerRecord::default() });
    assert_eq!(seen.cdi_devices, ["v.com/gpu=0", "v.com/gpu=1"].map(CdiDevice::new));
}

#[test]
fn classes_and_the_image_are_those_of_the_config() {
    let image = Image { name: "registry/app:1".to_owned(), digest: "sha256:1".to_owned(), ..Image::default() };
    let config = ContainerConfig {
        blockio_class: Some("slow".to_owned()),
        rdt_class: Some("gold".to_owned()),
        image: Some(image.clone()),
        ..ContainerConfig::default()
    };
    let spec = Some(Arc::new(json!({})));
    let seen = seen(&ContainerRecord { config, spec, ..ContainerRecord::default() });
    assert_eq!(seen.image, Some(image));
    let resources = seen.linux.unwrap().resources.unwrap();
    assert_eq!((resources.blockio_class.as_deref(), resources.rdt_class.as_deref()), (Some("slow"), Some("gold")));
}

#[test]
fn a_seccomp_profile_is_found_wherever_it_is_said() {
    let of =
        |kind, file: &str| Some(SecurityProfile { kind, localhost_ref: file.to_owned(), ..SecurityProfile::default() });
    let unset =
        ServerSettings { unset_seccomp_profile: of(ProfileKind::RuntimeDefault, ""), ..ServerSettings::default() };
    let check = |asked: Option<SecurityProfile>, path: &str, privileged, expected: Option<SecurityProfile>| {
        let asked = SeccompRequest { profile: asked, deprecated_path: path.to_owned(), privileged };
        assert_eq!(profile(&asked, &unset), expected, "{asked:?}");
    };
    let local = of(ProfileKind::Localhost, "a.json");
    check(local.clone(), "unconfined", false, local.clone());
    check(None, "localhost/a.json", false, local.clone());
    check(None, "unconfined", false, of(ProfileKind::Unconfined, ""));
    check(None, "runtime/default", false, of(ProfileKind::RuntimeDefault, ""));
    check(None, "", false, of(ProfileKind::RuntimeDefault, ""));
    check(local, "", true, of(ProfileKind::Unconfined, ""));
    assert_eq!(profile(&SeccompRequest::default(), &ServerSettings::default()), None);
}

#[test]
fn what_a_plugin_set_is_what_the_next_one_sees() {
    let mut adjustment = nri_proto::Adjustment::default();
    adjustment.annotations.set("a", "1").unwrap();
    adjustment.env.set(nri_proto::EnvVar::new("E", "1")).unwrap();
    adjustment.mounts.set(nri_proto::Mount::bind("/s", "/d", ["ro"])).unwrap();
    adjustment.rlimits.push(Rlimit::new("RLIMIT_CORE", 1, 2));
    adjustment.resources_mut().memory_mut().limit = Some(9);
    adjustment.linux_mut().sysctl.set("net.a", "1").unwrap();
    let mut spec = json!({"annotations": {"a": "0"}, "linux": {"namespaces": [{"type": "network"}]}});
    adjust(&mut spec, &adjustment, &Host::default()).unwrap();
    let config = ContainerConfig { annotations: texts([("a", "0")]), ..ContainerConfig::default() };
    let seen = seen(&ContainerRecord { spec: Some(Arc::new(spec)), config, ..ContainerRecord::default() });
    assert_eq!((seen.annotation("a"), seen.env("E")), (Some("1"), Some("1")));
    assert_eq!((&*seen.mounts[0].destination, seen.rlimits[0].hard), ("/d", 2));
    let linux = seen.linux.unwrap();
    assert_eq!((linux.resources.unwrap().memory.unwrap().limit, &*linux.sysctl["net.a"]), (Some(9), "1"));
}

/// Returns a record without empty members.
fn full() -> ContainerRecord {
    let spec = json!({
        "process": {
            "args": ["app"], "env": ["A=1"], "user": {"uid": 7}, "oomScoreAdj": 5,
            "rlimits": [{"type": "RLIMIT_CORE", "soft": 1, "hard": 2}],
            "ioPriority": {"class": "IOPRIO_CLASS_IDLE"}, "scheduler": {"policy": "SCHED_BATCH"},
        },
        "mounts": [{"destination": "/a"}],
        "hooks": {"poststop": [{"path": "/h"}]},
        "linux": {
            "namespaces": [{"type": "pid"}], "devices": [{"path": "/dev/a", "type": "c"}], "resources": {"cpu": {"shares": 2}},
            "cgroupsPath": "/c", "seccomp": {"defaultAction": "SCMP_ACT_ALLOW"}, "sysctl": {"net.a": "1"},
            "netDevices": {"eth0": {}}, "intelRdt": {"closID": "gold"},
        },
    });
    let profile = SecurityProfile { kind: ProfileKind::Localhost, ..SecurityProfile::default() };
    ContainerRecord {
        id: "c".to_owned(),
        pod_id: "p".to_owned(),
        config: ContainerConfig {
            name: "app".to_owned(),
            labels: texts([("l", "1")]),
            annotations: texts([("a", "1")]),
            image: Some(Image { name: "app:1".to_owned(), ..Image::default() }),
            cdi_devices: vec!["v.com/gpu=0".to_owned()],
            seccomp: SeccompRequest { profile: Some(profile), ..SeccompRequest::default() },
            ..ContainerConfig::default()
        },
        spec: Some(Arc::new(spec)),
        status: ContainerStatus {
            state: ContainerState::Running,
            pid: 1,
            created_at: 2,
            started_at: 3,
            finished_at: 4,
            exit_code: 5,
            reason: "r".to_owned(),
            message: "m".to_owned(),
        },
        ..ContainerRecord::default()
    }
}

/// The destructuring lists all members: a new one does not compile until it has a source.
#[test]
fn nothing_that_plugins_can_see_of_a_container_is_left_out() {
    let shown = seen(&full());
    let Container {
        id,
        pod_id,
        name,
        state,
        labels,
        annotations,
        args,
        env,
        mounts,
        hooks,
        linux,
        pid,
        rlimits,
        created_at,
        started_at,
        finished_at,
        exit_code,
        status_reason,
        status_message,
        cdi_devices,
        user,
        image,
        unknown: _,
    } = &shown;
    assert!([id, pod_id, name, status_reason, status_message].iter().all(|text| !text.is_empty()), "{shown:?}");
    assert!([labels, annotations].iter().all(|map| !map.is_empty()), "{shown:?}");
    assert!(![args.len(), env.len(), mounts.len(), rlimits.len(), cdi_devices.len()].contains(&0), "{shown:?}");
    assert!(hooks.is_some() && user.is_some() && image.is_some(), "{shown:?}");
    assert_eq!((*state, *pid, *exit_code), (ContainerState::Running, 1, 5));
    assert_eq!([*created_at, *started_at, *finished_at], [2, 3, 4]);

    let linux = linux.as_ref().unwrap();
    let LinuxContainer {
        namespaces,
        devices,
        resources,
        oom_score_adj,
        cgroups_path,
        io_priority,
        seccomp_profile,
        seccomp_policy,
        sysctl,
        net_devices,
        scheduler,
        rdt,
        unknown: _,
    } = linux;
    assert!(![namespaces.len(), devices.len(), sysctl.len(), net_devices.len(), cgroups_path.len()].contains(&0));
    assert!(resources.is_some() && oom_score_adj.is_some() && io_priority.is_some() && rdt.is_some(), "{linux:?}");
    assert!(seccomp_profile.is_some() && seccomp_policy.is_some() && scheduler.is_some(), "{linux:?}");
}
