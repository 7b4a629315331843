//! Fields without keys, and lists that only grow.

use nri_proto::{
    CdiDevice, Cpu, DeviceRule, HugepageLimit, IoPriority, Memory, MemoryPolicy, Pids, Rlimit, Scheduler, Seccomp,
};

use super::*;

type Set<T> = fn(&mut T);

/// Each field of resources, with a function that sets the field.
pub(super) const RESOURCES: [(Field, &str, Set<Resources>); 20] = [
    (Field::MemLimit, "", |it| memory(it).limit = Some(0)),
    (Field::MemReservation, "", |it| memory(it).reservation = Some(0)),
    (Field::MemSwapLimit, "", |it| memory(it).swap = Some(0)),
    (Field::MemKernelLimit, "", |it| memory(it).kernel = Some(0)),
    (Field::MemTCPLimit, "", |it| memory(it).kernel_tcp = Some(0)),
    (Field::MemSwappiness, "", |it| memory(it).swappiness = Some(0)),
    (Field::MemDisableOomKiller, "", |it| memory(it).disable_oom_killer = Some(false)),
    (Field::MemUseHierarchy, "", |it| memory(it).use_hierarchy = Some(false)),
    (Field::CPUShares, "", |it| cpu(it).shares = Some(0)),
    (Field::CPUQuota, "", |it| cpu(it).quota = Some(0)),
    (Field::CPUPeriod, "", |it| cpu(it).period = Some(0)),
    (Field::CPURealtimeRuntime, "", |it| cpu(it).realtime_runtime = Some(0)),
    (Field::CPURealtimePeriod, "", |it| cpu(it).realtime_period = Some(0)),
    (Field::CPUSetCPUs, "", |it| cpu(it).cpus = "0".to_owned()),
    (Field::CPUSetMems, "", |it| cpu(it).mems = "0".to_owned()),
    (Field::HugepageLimits, "2MB", |it| {
        it.hugepage_limits.push(HugepageLimit { page_size: "2MB".to_owned(), ..HugepageLimit::default() });
    }),
    (Field::CgroupsUnified, "memory.high", |it| _ = it.unified.insert("memory.high".to_owned(), String::new())),
    (Field::BlockioClass, "", |it| it.blockio_class = Some(String::new())),
    (Field::RdtClass, "", |it| it.rdt_class = Some(String::new())),
    (Field::PidsLimit, "", |it| it.pids = Some(Pids::default())),
];

const LINUX: [(Field, &str, Set<LinuxAdjustment>); 6] = [
    (Field::CgroupsPath, "", |it| it.cgroups_path = "/x".to_owned()),
    (Field::OomScoreAdj, "", |it| it.oom_score_adj = Some(0)),
    (Field::IoPriority, "", |it| it.io_priority = Some(IoPriority::default())),
    (Field::SeccompPolicy, "", |it| it.seccomp_policy = Some(Seccomp::default())),
    (Field::LinuxSched, "", |it| it.scheduler = Some(Scheduler::default())),
    (Field::MemoryPolicy, "", |it| it.memory_policy = Some(MemoryPolicy::default())),
];

const OTHERS: [(Field, &str, Set<Adjustment>); 2] = [
    (Field::Rlimits, "nofile", |it| it.rlimits.push(Rlimit { kind: "nofile".to_owned(), ..Rlimit::default() })),
    (Field::CdiDevices, "x/y=z", |it| {
        it.cdi_devices.push(CdiDevice { name: "x/y=z".to_owned(), ..CdiDevice::default() });
    }),
];

fn memory(resources: &mut Resources) -> &mut Memory {
    resources.memory.get_or_insert_default()
}

fn cpu(resources: &mut Resources) -> &mut Cpu {
    resources.cpu.get_or_insert_default()
}

/// Returns each field with its key, and a reply that sets only this field. Zero and empty count as
/// values.
fn each() -> impl Iterator<Item = (Field, &'static str, CreateReply)> {
    let resources = RESOURCES.into_iter().map(|(field, key, set)| (field, key, adjusting_resources(set)));
    let linux = LINUX.into_iter().map(|(field, key, set)| (field, key, adjusting_linux(set)));
    let others = OTHERS.into_iter().map(|(field, key, set)| (field, key, adjusting(set)));
    resources.chain(linux).chain(others)
}

#[test]
fn a_field_that_is_set_is_in_the_result_and_owned() {
    for (field, key, reply) in each() {
        let merged = merged(container(), [("10-a", reply.clone())]);
        let owner = merged.owners.owner(NEW, field, key);
        assert!(owner.is_some_and(|owner| owner.plugins().eq(["10-a"])), "{field}: {:?}", merged.owners);

        let mut expected = collect::nothing_adjusted();
        collect::add(&mut expected, &mut reply.adjustment.unwrap());
        assert_eq!(merged.adjustment, expected, "{field}");
        assert_ne!(merged.adjustment, self::merged(container(), []).adjustment, "{field}");
    }
}

#[test]
fn two_plugins_cannot_set_the_same_field() {
    for (field, key, reply) in each() {
        let (_, refused) = create(container(), [("10-a", reply.clone()), ("20-b", reply)]);
        let expected = format!(r#"plugins "20-b" and "10-a" both tried to set {field} {key}"#);
        assert_eq!(refused, Err(expected), "{field}");
    }
}

#[test]
fn different_fields_do_not_meet() {
    let replies = each().map(|(field, _, reply)| (&*String::leak(format!("10-{field}")), reply));
    let merged = merged(container(), replies);
    for (field, key, _) in each() {
        let owner = merged.owners.owner(NEW, field, key).unwrap();
        assert!(owner.plugins().eq([&*format!("10-{field}")]), "{field}");
    }
}

#[test]
fn a_field_that_is_set_is_shown_unless_a_container_has_no_place_for_it() {
    let original = CreateMerge::new(container());
    for (field, _, reply) in each() {
        let mut merge = original.clone();
        let applied = merge.apply(&id("10-a"), reply).unwrap();
        let is_shown = !matches!(field, Field::CdiDevices | Field::MemoryPolicy);
        assert_eq!(merge.view() != original.view(), is_shown, "{field}");
        assert_eq!(applied.view_changed(), is_shown, "{field}");
    }
}

#[test]
fn an_empty_set_of_cpus_or_path_is_not_set() {
    let reply = adjusting_linux(|linux| {
        cpu(linux.resources.get_or_insert_default()).cpus = String::new();
        linux.cgroups_path = String::new();
    });
    assert_eq!(merged(container(), [("10-a", reply.clone()), ("20-b", reply)]).owners, nri_proto::Owners::default());
}

#[test]
fn limits_of_huge_pages_and_processes_are_added_to_what_is_there() {
    let limit = |limit| HugepageLimit { page_size: "2MB".to_owned(), limit, ..HugepageLimit::default() };
    let mut original = container();
    original.rlimits = vec![Rlimit { kind: "nofile".to_owned(), soft: 7, ..Rlimit::default() }];
    original.linux.get_or_insert_default().resources.get_or_insert_default().hugepage_limits = vec![limit(7)];
    let reply = adjusting(|adjustment| {
        OTHERS[0].2(adjustment);
        let linux = adjustment.linux.get_or_insert_default();
        linux.resources.get_or_insert_default().hugepage_limits = vec![limit(8)];
    });

    let (merge, _) = create(original, [("10-a", reply)]);
    assert_eq!(merge.view().rlimits.iter().map(|rlimit| rlimit.soft).collect::<Vec<_>>(), [7, 0]);
    let resources = merge.view().linux.as_ref().unwrap().resources.as_ref().unwrap();
    assert_eq!(resources.hugepage_limits, [limit(7), limit(8)]);
}

#[test]
fn rules_for_devices_are_added_and_nobodys() {
    let rule = |access: &str| DeviceRule { access: access.to_owned(), ..DeviceRule::default() };
    let reply = |access| adjusting_resources(|resources| resources.devices = vec![rule(access)]);
    let mut original = container();
    original.linux.get_or_insert_default().resources.get_or_insert_default().devices = vec![rule("m")];

    let (merge, refused) = create(original, [("10-a", reply("r")), ("20-b", reply("r"))]);
    assert_eq!(refused, Ok(()));
    let shown = merge.view().linux.as_ref().unwrap().resources.as_ref().unwrap();
    assert_eq!(shown.devices, [rule("m"), rule("r"), rule("r")]);
    let merged = merge.finish();
    assert_eq!(merged.adjustment.linux.unwrap().resources.unwrap().devices, [rule("r"), rule("r")]);
    assert_eq!(merged.owners, nri_proto::Owners::default());
}
