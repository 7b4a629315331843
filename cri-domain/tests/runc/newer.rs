//! Fields that runc supports only after version 1.1, the version of Debian.

use std::fs;

use nri_proto::{
    IoPriority, IoPriorityClass, MemoryPolicy, MemoryPolicyMode, Namespace, NetDevice, Scheduler, SchedulerPolicy,
};

use crate::bundle::Bundle;

#[test]
fn the_io_priority_is_the_adjusted_one() {
    let Some(mut bundle) = Bundle::with_runc(1, 2) else { return };
    bundle.linux().io_priority = Some(IoPriority::new(IoPriorityClass::BestEffort, 3));
    assert_eq!(bundle.run("busybox ionice -p 1"), "best-effort: prio 3\n");
}

#[test]
fn the_scheduler_is_the_adjusted_one() {
    let Some(mut bundle) = Bundle::with_runc(1, 2) else { return };
    bundle.linux().scheduler = Some(Scheduler { policy: SchedulerPolicy::Batch, nice: 5, ..Scheduler::default() });
    let said = bundle.run("cat /proc/1/stat");
    // The third field comes after the name in parentheses; see proc(5).
    let fields: Vec<&str> = said.rsplit_once(") ").unwrap().1.split_whitespace().collect();
    assert_eq!((fields[19 - 3], fields[41 - 3]), ("5", "3"), "nice, and SCHED_BATCH");
}

#[test]
fn a_namespace_of_time_is_the_containers_own() {
    let Some(mut bundle) = Bundle::with_runc(1, 2) else { return };
    let hosts = fs::read_link("/proc/self/ns/time").unwrap();
    assert_eq!(bundle.run("readlink /proc/self/ns/time").trim(), hosts.to_str().unwrap());
    bundle.linux().namespaces.set(Namespace::new("time", "")).unwrap();
    assert_ne!(bundle.run("readlink /proc/self/ns/time").trim(), hosts.to_str().unwrap());
}

#[test]
fn a_network_device_is_moved_into_the_container_under_its_name() {
    let Some(mut bundle) = Bundle::with_runc(1, 4) else { return };
    bundle.linux().net_devices.set("nri0", NetDevice::named("lan")).unwrap();
    let said = bundle.run_in_network("ip link add nri0 type veth peer name nri1", "cat /proc/net/dev");
    assert!(said.contains("lan:") && !said.contains("nri"), "{said}");
}

#[test]
fn memory_is_taken_from_where_the_policy_says() {
    let Some(mut bundle) = Bundle::with_runc(1, 4) else { return };
    bundle.linux().memory_policy =
        Some(MemoryPolicy { mode: MemoryPolicyMode::Bind, nodes: "0".to_owned(), ..MemoryPolicy::default() });
    let said = bundle.run("cat /proc/self/numa_maps");
    assert!(said.contains(" bind:0 "), "{said}");
}
