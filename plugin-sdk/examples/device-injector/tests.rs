use nri_plugin::testing::{Node, container, pod};
use nri_plugin::{
    IoPriority, IoPriorityClass, MemoryPolicyFlag, MemoryPolicyMode, SchedulerFlag, SchedulerPolicy, chain,
};

use super::{Adjustment, DeviceInjector};

/// Returns the adjustment that a container gets from these annotations, or the error.
async fn injected(annotations: &[(&str, &str)]) -> Result<Adjustment, String> {
    let node = Node::new();
    node.join("10-device-injector", DeviceInjector).await.unwrap();
    let mut pod = pod("web");
    let owned = |(key, text): &(&str, &str)| ((*key).to_owned(), (*text).to_owned());
    pod.annotations = annotations.iter().map(owned).collect();
    let created = node.create(&pod, &container("app", &pod)).await.map_err(|error| chain(&error))?;
    Ok(created.adjustment)
}

#[tokio::test]
async fn a_device_is_injected_as_it_is_annotated() {
    let text = "- {path: /dev/fuse, type: c, major: 10, minor: 229, file_mode: 0666, gid: 5}";
    let linux = injected(&[("devices.noderesource.dev/container.app", text)]).await.unwrap().linux.unwrap();
    let device = linux.devices.get("/dev/fuse").unwrap().into_value().unwrap().clone();
    assert_eq!((&*device.kind, device.major, device.minor), ("c", 10, 229));
    assert_eq!((device.file_mode, device.uid, device.gid), (Some(0o666), None, Some(5)));
}

#[tokio::test]
async fn mounts_and_cdi_devices_are_injected() {
    let mounts = "- source: /srv\n  destination: /data\n  type: bind\n  options: [bind, ro]\n";
    let adjustment =
        injected(&[("mounts.nri.io/pod", mounts), ("cdi-devices.noderesource.dev", "[v.com/d=null]")]).await.unwrap();
    let mount = adjustment.mounts.get("/data").unwrap().into_value().unwrap();
    assert_eq!(
        (&*mount.source, &*mount.kind, &mount.options[..]),
        ("/srv", "bind", &["bind".to_owned(), "ro".to_owned()][..])
    );
    assert_eq!(adjustment.cdi_devices[0].name, "v.com/d=null");
}

#[tokio::test]
async fn what_only_linux_has_is_injected() {
    let linux = injected(&[
        ("io-priority.noderesource.dev/pod", "{class: IOPRIO_CLASS_RT, priority: 5}"),
        ("scheduling-policy.noderesource.dev", "{policy: SCHED_FIFO, priority: 10, flags: [SCHED_FLAG_RESET_ON_FORK]}"),
        ("network-devices.noderesource.dev/container.app", "- hostIf: ens2.100\n  Name: netdev0\n"),
        ("sysctl.noderesource.dev/container.app", "net.core.somaxconn: \"1024\""),
        ("memory-policy.noderesource.dev", "{mode: MPOL_BIND, nodes: \"0-1\", flags: [MPOL_F_STATIC_NODES]}"),
    ])
    .await
    .unwrap()
    .linux
    .unwrap();
    assert_eq!(linux.io_priority, Some(IoPriority::new(IoPriorityClass::RealTime, 5)));
    let scheduler = linux.scheduler.unwrap();
    assert_eq!((scheduler.policy, scheduler.priority), (SchedulerPolicy::Fifo, 10));
    assert_eq!(scheduler.flags, [SchedulerFlag::ResetOnFork]);
    assert_eq!(linux.net_devices.get("ens2.100").unwrap().value().unwrap().name, "netdev0");
    assert_eq!(linux.sysctl.get("net.core.somaxconn").unwrap().value().unwrap(), &"1024");
    let policy = linux.memory_policy.unwrap();
    assert_eq!((policy.mode, &*policy.nodes), (MemoryPolicyMode::Bind, "0-1"));
    assert_eq!(policy.flags, [MemoryPolicyFlag::StaticNodes]);
}

#[tokio::test]
async fn the_most_precise_annotation_counts_whatever_its_domain() {
    let all = [
        ("cdi-devices.noderesource.dev/container.app", "[v.com/d=1]"),
        ("cdi-devices.nri.io/container.app", "[v.com/d=2]"),
        ("cdi-devices.noderesource.dev/pod", "[v.com/d=3]"),
        ("cdi-devices.nri.io/pod", "[v.com/d=4]"),
        ("cdi-devices.noderesource.dev", "[v.com/d=5]"),
        ("cdi-devices.nri.io", "[v.com/d=6]"),
    ];
    for first in 0..all.len() {
        let devices = injected(&all[first..]).await.unwrap().cdi_devices;
        assert_eq!(devices.len(), 1);
        assert_eq!(devices[0].name, format!("v.com/d={}", first + 1));
    }
    assert!(
        injected(&[("cdi-devices.noderesource.dev/container.other", "[v.com/d=1]")])
            .await
            .unwrap()
            .cdi_devices
            .is_empty()
    );
    assert!(injected(&[("sysctl.nri.io", "a: b")]).await.unwrap().linux.is_none_or(|linux| linux.sysctl.is_empty()));
}

#[tokio::test]
async fn a_wrong_annotation_is_refused_by_name() {
    for (key, text, expected) in [
        ("devices.noderesource.dev/pod", "/dev/fuse", "invalid annotation devices.noderesource.dev/pod: "),
        (
            "mounts.noderesource.dev",
            "- source: &x /a\n  destination: *x",
            "invalid annotation mounts.noderesource.dev: ",
        ),
        ("scheduling-policy.noderesource.dev", "{policy: SCHED_NOPE}", "invalid scheduling policy \"SCHED_NOPE\""),
        ("io-priority.noderesource.dev", "{class: NOPE}", "invalid I/O priority class \"NOPE\""),
        ("memory-policy.noderesource.dev", "{mode: MPOL_NOPE}", "invalid memory policy mode \"MPOL_NOPE\""),
        ("sysctl.noderesource.dev", "{-x: y}", "cannot set \"-x\": "),
    ] {
        let error = injected(&[(key, text)]).await.unwrap_err();
        let prefix = "plugin 10-device-injector failed to handle CreateContainer request: ";
        assert!(error.starts_with(&format!("{prefix}{expected}")), "{text}: {error}");
    }
}
