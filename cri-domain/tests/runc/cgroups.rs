//! Fields that are visible in the container's cgroup.

use std::fs;

use cri_domain::generator::host::BlockIoClasses;
use nri_proto::{Cpu, Device, DeviceRule, HugepageLimit, Memory, Pids, Resources};

use crate::bundle::Bundle;

fn said(files: &[Option<String>]) -> Vec<&str> {
    files.iter().map(|file| file.as_deref().unwrap_or("nothing")).collect()
}

#[test]
fn the_cgroup_is_the_adjusted_one() {
    let Some(mut bundle) = Bundle::new() else { return };
    let path = format!("/{}-elsewhere", bundle.id);
    bundle.linux().cgroups_path.clone_from(&path);
    let said = bundle.run("cat /proc/self/cgroup");
    assert!(said.lines().any(|line| line.ends_with(&path)), "{said}");
}

#[test]
fn memory_is_limited() {
    let Some(mut bundle) = Bundle::on_cgroup_v1() else { return };
    let memory = Memory {
        limit: Some(64 << 20),
        reservation: Some(32 << 20),
        swap: Some(128 << 20),
        swappiness: Some(7),
        disable_oom_killer: Some(true),
        ..Memory::default()
    };
    bundle.linux().resources = Some(Resources { memory: Some(memory), ..Resources::default() });
    let [limit, reservation, swap, swappiness, oom] = bundle.cgroup([
        "memory/memory.limit_in_bytes",
        "memory/memory.soft_limit_in_bytes",
        "memory/memory.memsw.limit_in_bytes",
        "memory/memory.swappiness",
        "memory/memory.oom_control",
    ]);
    assert_eq!(said(&[limit, reservation]), ["67108864", "33554432"]);
    // Some kernels are built without these files.
    assert!([None, Some("134217728")].contains(&swap.as_deref()), "{swap:?}");
    assert!([None, Some("7")].contains(&swappiness.as_deref()), "{swappiness:?}");
    assert!(oom.as_ref().is_none_or(|oom| oom.contains("oom_kill_disable 1")), "{oom:?}");
}

#[test]
fn cpu_time_and_cpus_are_limited() {
    let Some(mut bundle) = Bundle::on_cgroup_v1() else { return };
    let cpu = Cpu {
        shares: Some(512),
        quota: Some(50_000),
        period: Some(200_000),
        realtime_period: Some(500_000),
        cpus: "0".to_owned(),
        mems: "0".to_owned(),
        ..Cpu::default()
    };
    bundle.linux().resources = Some(Resources { cpu: Some(cpu), ..Resources::default() });
    let found = bundle.cgroup([
        "cpu/cpu.shares",
        "cpu/cpu.cfs_quota_us",
        "cpu/cpu.cfs_period_us",
        "cpuset/cpuset.cpus",
        "cpuset/cpuset.mems",
        "cpu/cpu.rt_period_us",
    ]);
    assert_eq!(said(&found[..5]), ["512", "50000", "200000", "0", "0"]);
    assert!([None, Some("500000")].contains(&found[5].as_deref()), "{found:?}");
}

#[test]
fn processes_are_limited_and_the_limit_is_lifted() {
    for (limit, expected) in [(17, "17"), (-1, "max")] {
        let Some(mut bundle) = Bundle::on_cgroup_v1() else { return };
        bundle.spec["linux"]["resources"]["pids"] = serde_json::json!({"limit": 5});
        let pids = Some(Pids { limit, ..Pids::default() });
        bundle.linux().resources = Some(Resources { pids, ..Resources::default() });
        assert_eq!(said(&bundle.cgroup(["pids/pids.max"])), [expected]);
    }
}

#[test]
fn a_device_may_be_used_and_its_rule_goes_with_it() {
    let Some(mut bundle) = Bundle::on_cgroup_v1() else { return };
    let device = Device {
        path: "/dev/nothing".to_owned(),
        kind: "c".to_owned(),
        major: 1,
        minor: 3,
        file_mode: Some(0o640),
        gid: Some(7),
        ..Device::default()
    };
    bundle.linux().devices.set(device).unwrap();
    bundle.linux().devices.remove("/dev/gone");
    let rule = DeviceRule {
        allow: true,
        kind: "c".to_owned(),
        major: Some(10),
        minor: Some(200),
        access: "rw".to_owned(),
        ..DeviceRule::default()
    };
    bundle.linux().resources = Some(Resources { devices: vec![rule], ..Resources::default() });
    let [rules] = bundle.cgroup(["devices/devices.list"]);
    let rules = rules.unwrap();
    assert!(rules.lines().any(|rule| rule == "c 1:3 rwm"), "{rules}");
    assert!(rules.lines().any(|rule| rule.starts_with("c 10:200 rw")), "{rules}");
    assert!(!rules.contains("c 1:11"), "{rules}");
}

#[test]
fn a_device_is_in_the_container() {
    let Some(mut bundle) = Bundle::new() else { return };
    let device = Device {
        path: "/dev/nothing".to_owned(),
        kind: "c".to_owned(),
        major: 1,
        minor: 3,
        file_mode: Some(0o640),
        gid: Some(7),
        ..Device::default()
    };
    bundle.linux().devices.set(device).unwrap();
    bundle.linux().devices.remove("/dev/gone");
    let said = bundle
        .run("stat -c '%a %g %t:%T' /dev/nothing; echo x > /dev/nothing && echo written; ls /dev/gone 2>&1; true");
    assert!(said.starts_with("640 7 1:3\nwritten\n"), "{said}");
    assert!(said.contains("No such file"), "{said}");
}

#[test]
fn a_class_of_block_io_is_what_the_operator_says() {
    let Some(mut bundle) = Bundle::on_cgroup_v1() else { return };
    let Some((number, device)) = disk() else { return };
    let text = format!("Classes: {{slow: [{{Devices: [{device}], ThrottleReadBps: 10M, ThrottleWriteIOPS: 1k}}]}}");
    let classes = BlockIoClasses::read(&text).unwrap();
    bundle.host.blockio = Some(Box::new(move |class| classes.class(class)));
    bundle.linux().resources = Some(Resources { blockio_class: Some("slow".to_owned()), ..Resources::default() });
    let found = bundle.cgroup(["blkio/blkio.throttle.read_bps_device", "blkio/blkio.throttle.write_iops_device"]);
    assert_eq!(said(&found), [format!("{number} 10000000"), format!("{number} 1000")]);
}

/// Returns a block device of this machine that is not a partition.
fn disk() -> Option<(String, String)> {
    let disks = fs::read_dir("/sys/block").ok()?;
    disks.filter_map(Result::ok).find_map(|disk| {
        let device = format!("/dev/{}", disk.file_name().to_str()?);
        let number = fs::read_to_string(disk.path().join("dev")).ok()?.trim().to_owned();
        fs::exists(&device).ok()?.then_some((number, device))
    })
}

#[test]
fn a_container_with_huge_pages_runs_also_where_there_are_none() {
    let Some(mut bundle) = Bundle::new() else { return };
    let limit = HugepageLimit { page_size: "2MB".to_owned(), limit: 0, ..HugepageLimit::default() };
    bundle.linux().resources = Some(Resources { hugepage_limits: vec![limit], ..Resources::default() });
    assert_eq!(bundle.run("echo runs"), "runs\n");
}
