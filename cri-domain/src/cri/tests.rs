use std::collections::BTreeMap;

use nri_proto::{ContainerState, Field, Memory, ProfileKind, Resources, SecurityProfile, arbitrary};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::model::{ContainerStatus, PodState, PodStatus};

fn message() -> impl Strategy<Value = v1::LinuxContainerResources> {
    let number = || prop_oneof![Just(0), Just(-1), 1..9_i64, any::<i64>()];
    let list = || select(&["", "0", "0-3"][..]).prop_map(str::to_owned);
    let hugepages = vec((select(&["2MB", "1GB"][..]), any::<u64>()), 0..4);
    let unified: BTreeMap<_, _> = [("memory.high".to_owned(), "max".to_owned())].into();
    let unified = select(vec![BTreeMap::new(), unified]);
    (number(), number(), number(), number(), number(), number(), list(), list(), hugepages, unified).prop_map(
        |(period, quota, shares, limit, swap, oom, cpus, mems, hugepages, unified)| v1::LinuxContainerResources {
            cpu_period: period,
            cpu_quota: quota,
            cpu_shares: shares,
            memory_limit_in_bytes: limit,
            oom_score_adj: oom,
            cpuset_cpus: cpus,
            cpuset_mems: mems,
            hugepage_limits: hugepages
                .into_iter()
                .map(|(size, limit)| v1::HugepageLimit { page_size: size.to_owned(), limit })
                .collect(),
            unified,
            memory_swap_limit_in_bytes: swap,
        },
    )
}

/// Keeps the limits that the CRI can express, and removes those that it counts as not set.
fn sayable(mut it: Resources) -> Resources {
    it.blockio_class = None;
    it.rdt_class = None;
    it.devices.clear();
    it.pids = None;
    it.hugepage_limits.dedup_by_key(|limit| limit.page_size.clone());
    let some = |number: Option<i64>| number.filter(|number| *number != 0);
    let unsigned = |number: Option<u64>| number.map(|number| number >> 1).filter(|number| *number != 0);
    it.memory = it
        .memory
        .map(|memory| Memory { limit: some(memory.limit), swap: some(memory.swap), ..Memory::default() })
        .filter(|memory| *memory != Memory::default());
    it.cpu = it
        .cpu
        .map(|cpu| nri_proto::Cpu {
            shares: unsigned(cpu.shares),
            quota: some(cpu.quota),
            period: unsigned(cpu.period),
            cpus: cpu.cpus,
            mems: cpu.mems,
            ..nri_proto::Cpu::default()
        })
        .filter(|cpu| *cpu != nri_proto::Cpu::default());
    it.unknown = nri_proto::Unknown::default();
    it.hugepage_limits.iter_mut().for_each(|limit| limit.unknown = nri_proto::Unknown::default());
    it
}

proptest! {
    #[test]
    fn limits_of_the_kubelet_come_back_as_they_were(message in message()) {
        let limited = limit(message.clone(), &resources(&message));
        prop_assert_eq!(limited, CriLimits { message, unsupported: vec![] });
    }

    #[test]
    fn limits_that_the_cri_can_say_come_back_as_they_were(any in arbitrary::resources()) {
        let limits = sayable(any);
        let limited = limit(v1::LinuxContainerResources::default(), &limits);
        prop_assert_eq!(limited.unsupported, vec![]);
        prop_assert_eq!(resources(&limited.message), limits);
    }

    #[test]
    fn each_limit_is_said_or_reported(any in arbitrary::resources()) {
        let limited = limit(v1::LinuxContainerResources::default(), &any);
        let said = resources(&limited.message);
        for field in crate::limits::fields(&any) {
            let is_said = crate::limits::fields(&said).contains(&field) || is_nothing(&any, field);
            prop_assert!(is_said != limited.unsupported.contains(&field), "{field}: {limited:?}");
        }
    }

    #[test]
    fn the_status_of_a_container_comes_back_as_it_was(
        state in select(&[ContainerState::Created, ContainerState::Running, ContainerState::Stopped, ContainerState::Unknown][..]),
        times in any::<[i64; 3]>(), exit_code in any::<i32>(), reason in "[a-z]{0,3}", message in "[a-z]{0,3}",
    ) {
        let [created_at, started_at, finished_at] = times;
        let status = ContainerStatus { state, pid: 0, created_at, started_at, finished_at, exit_code, reason, message };
        let mut message = v1::ContainerStatus::default();
        to_container_status(&mut message, &status);
        prop_assert_eq!(container_status(&message), status);
    }

    #[test]
    fn the_status_of_a_pod_comes_back_as_it_was(ready in any::<bool>(), ips in vec("[0-9.]{1,4}", 0..3)) {
        let state = if ready { PodState::Ready } else { PodState::NotReady };
        let status = PodStatus { state, ips, ..PodStatus::default() };
        let mut message = v1::PodSandboxStatus::default();
        to_pod_status(&mut message, &status);
        prop_assert_eq!(pod_status(&message), status);
    }

    #[test]
    fn labels_and_annotations_are_those_of_the_config(labels in btree_map("[a-z]{1,2}", "[a-z]{0,2}", 0..3)) {
        let message = v1::PodSandboxConfig { labels: labels.clone(), annotations: labels.clone(), ..Default::default() };
        let config = pod_config(&message, "");
        prop_assert_eq!((config.labels, config.annotations), (labels.clone(), labels));
    }
}

/// Returns whether the CRI counts the value of this field as not set.
fn is_nothing(resources: &Resources, field: Field) -> bool {
    let (memory, cpu) = (resources.memory.clone().unwrap_or_default(), resources.cpu.clone().unwrap_or_default());
    let nothing = [
        (Field::MemLimit, memory.limit == Some(0)),
        (Field::MemSwapLimit, memory.swap == Some(0)),
        (Field::CPUShares, cpu.shares == Some(0)),
        (Field::CPUQuota, cpu.quota == Some(0)),
        (Field::CPUPeriod, cpu.period == Some(0)),
    ];
    nothing.contains(&(field, true))
}

#[test]
fn the_swap_limit_of_the_kubelet_survives_and_what_the_cri_lacks_is_reported() {
    let kubelet = v1::LinuxContainerResources {
        memory_limit_in_bytes: 100,
        memory_swap_limit_in_bytes: 300,
        oom_score_adj: 7,
        ..Default::default()
    };
    let mut asked = Resources::default();
    asked.memory_mut().limit = Some(200);
    asked.memory_mut().reservation = Some(50);
    asked.limit_pids(9);
    let CriLimits { message, unsupported } = limit(kubelet, &asked);
    assert_eq!((message.memory_limit_in_bytes, message.memory_swap_limit_in_bytes), (200, 300));
    assert_eq!(message.oom_score_adj, 7);
    assert_eq!(unsupported, [Field::MemReservation, Field::PidsLimit]);
}

#[test]
fn profiles_come_back_as_they_were() {
    for kind in [ProfileKind::RuntimeDefault, ProfileKind::Unconfined, ProfileKind::Localhost] {
        let known = SecurityProfile { kind, localhost_ref: "a.json".to_owned(), ..SecurityProfile::default() };
        assert_eq!(profile(&to_profile(&known)), Some(known));
    }
    assert_eq!(profile(&v1::SecurityProfile { profile_type: 9, ..Default::default() }), None);
}

#[test]
fn a_container_is_asked_for_with_all_that_nri_has_words_for() {
    let message = v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata { name: "app".to_owned(), attempt: 1 }),
        image: Some(v1::ImageSpec { image: "app:1".to_owned(), ..Default::default() }),
        command: vec!["sh".to_owned()],
        args: vec!["-c".to_owned()],
        envs: vec![v1::KeyValue { key: "A".to_owned(), value: b"1".to_vec() }],
        mounts: vec![v1::Mount {
            container_path: "/in".to_owned(),
            host_path: "/out".to_owned(),
            readonly: true,
            propagation: v1::MountPropagation::PropagationHostToContainer.into(),
            recursive_read_only: false,
        }],
        linux: Some(v1::LinuxContainerConfig {
            resources: Some(v1::LinuxContainerResources { oom_score_adj: 5, cpu_shares: 2, ..Default::default() }),
            security_context: Some(v1::LinuxContainerSecurityContext {
                privileged: false,
                seccomp_profile_path: "localhost/a.json".to_owned(),
                seccomp: None,
            }),
        }),
        cdi_devices: vec![v1::CdiDevice { name: "v.com/gpu=0".to_owned() }],
        ..Default::default()
    };
    let config = container_config(&message);
    assert_eq!((&*config.name, &config.args[..]), ("app", &["sh".to_owned(), "-c".to_owned()][..]));
    assert_eq!((&config.env[..], &*config.image.unwrap().name), (&["A=1".to_owned()][..], "app:1"));
    assert_eq!(config.mounts[0].options, ["rbind", "rslave", "ro"]);
    assert_eq!((config.oom_score_adj, config.resources.unwrap().cpu.unwrap().shares), (Some(5), Some(2)));
    assert_eq!((&*config.cdi_devices[0], &*config.seccomp.deprecated_path), ("v.com/gpu=0", "localhost/a.json"));
}
