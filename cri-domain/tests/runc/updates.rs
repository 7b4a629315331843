//! New limits of a running container, set through the domain.

use std::fs;
use std::sync::Arc;

use cri_domain::CriDomain;
use cri_domain::generator::Host;
use cri_domain::model::{ContainerRecord, ContainerStatus, ServerSettings};
use cri_domain::store::{MemoryStore, Store as _};
use nri_proto::{ContainerState, Resources};
use serde_json::{Value, json};

use crate::bundle::Bundle;
use crate::mini_runc::Runc;

/// A running container, and its domain.
struct Running {
    domain: CriDomain,
    store: Arc<MemoryStore>,
    bundle: Bundle,
}

impl Running {
    async fn new() -> Option<Self> {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut Value)) -> Option<Self> {
        let mut bundle = Bundle::on_cgroup_v1()?;
        bundle.spec["process"]["args"] = json!(["sh", "-c", "while :; do read line < /proc/uptime; done"]);
        bundle.spec["root"]["path"] = json!(bundle.path().join("rootfs"));
        bundle.spec["linux"]["resources"]["memory"] = json!({"limit": 64 << 20, "swap": 128 << 20});
        bundle.spec["linux"]["resources"]["cpu"] = json!({"shares": 512});
        change(&mut bundle.spec);
        let runc = Arc::new(Runc::new(bundle.path()));
        let made = runc.create(&bundle.id, &bundle.spec).await.unwrap();
        runc.start(&bundle.id).await.unwrap();
        let store = Arc::new(MemoryStore::default());
        store.put_container(ContainerRecord {
            id: bundle.id.clone(),
            spec: Some(Arc::new(bundle.spec.clone())),
            status: ContainerStatus { state: ContainerState::Running, pid: made.pid, ..ContainerStatus::default() },
            ..ContainerRecord::default()
        });
        let domain =
            CriDomain::new(Arc::clone(&store) as Arc<_>, runc, Host::of_this_machine(), ServerSettings::default());
        Some(Self { domain, store, bundle })
    }

    /// Returns the content of a file in the container's cgroup; `None` if it does not exist.
    fn cgroup(&self, controller: &str, file: &str) -> Option<String> {
        let path = format!("/sys/fs/cgroup/{controller}/{}/{file}", self.bundle.id);
        fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
    }

    fn shares(&self) -> (Option<String>, Option<u64>) {
        let seen = self.domain.container(&self.bundle.id).unwrap().linux.unwrap().resources.unwrap();
        (self.cgroup("cpu", "cpu.shares"), seen.cpu.unwrap().shares)
    }

    async fn limit(&self, set: impl FnOnce(&mut Resources)) -> Result<(), String> {
        let mut resources = Resources::default();
        set(&mut resources);
        let limited = self.domain.limit(&self.bundle.id, &resources).await;
        limited.map_err(|error| format!("{error}: {}", std::error::Error::source(&error).unwrap()))
    }
}

#[tokio::test]
async fn new_limits_are_in_the_cgroup_and_others_stay() {
    let Some(running) = Running::new().await else { return };
    let set = |it: &mut Resources| {
        it.memory_mut().limit = Some(96 << 20);
        it.limit_pids(33);
    };
    running.limit(set).await.unwrap();
    assert_eq!(running.cgroup("memory", "memory.limit_in_bytes"), Some((96 << 20).to_string()));
    assert_eq!(running.cgroup("pids", "pids.max").as_deref(), Some("33"));
    assert_eq!(running.shares(), (Some("512".to_owned()), Some(512)));
    // Some kernels are built without this file.
    let swap = running.cgroup("memory", "memory.memsw.limit_in_bytes");
    assert!(swap.as_ref().is_none_or(|swap| *swap == (128 << 20).to_string()), "{swap:?}");
}

#[tokio::test]
async fn d15_d16_what_the_kernel_refuses_is_taken_back_and_the_container_lives() {
    let Some(running) = Running::new().await else { return };
    let no_such_cpu = |it: &mut Resources| {
        it.cpu_mut().shares = Some(256);
        it.cpu_mut().cpus = "4095".to_owned();
    };
    let error = running.limit(no_such_cpu).await.unwrap_err();
    assert!(error.contains("could not update container"), "{error}");
    assert_eq!(running.shares(), (Some("512".to_owned()), Some(512)));

    let error = running.limit(|it| _ = it.unified.insert("memory.high".to_owned(), "1".to_owned())).await.unwrap_err();
    assert!(error.contains("unified"), "{error}");

    // The limit is less than the container uses.
    let error = running.limit(|it| it.memory_mut().limit = Some(4096)).await.unwrap_err();
    assert!(error.contains("could not update container"), "{error}");
    assert_eq!(running.cgroup("memory", "memory.limit_in_bytes"), Some((64 << 20).to_string()));

    let pid = running.store.container(&running.bundle.id).unwrap().status.pid;
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    assert!(!status.contains(") Z "), "it has ended: {status}");
    running.limit(|it| it.cpu_mut().shares = Some(128)).await.unwrap();
    assert_eq!(running.shares(), (Some("128".to_owned()), Some(128)));
}

#[tokio::test]
async fn d15_limits_that_there_were_none_of_are_lifted_when_an_update_fails() {
    let unlimited = |spec: &mut Value| _ = spec["linux"]["resources"].as_object_mut().unwrap().remove("memory");
    let Some(running) = Running::with(unlimited).await else { return };
    let before = running.cgroup("memory", "memory.limit_in_bytes");
    // runc sets memory before CPU time, and the kernel refuses this much CPU time.
    let too_long = |it: &mut Resources| {
        it.memory_mut().limit = Some(96 << 20);
        it.cpu_mut().quota = Some(1 << 62);
    };
    let error = running.limit(too_long).await.unwrap_err();
    assert!(error.contains("could not update container"), "{error}");
    assert_eq!(running.cgroup("memory", "memory.limit_in_bytes"), before);
    let swap = running.cgroup("memory", "memory.memsw.limit_in_bytes");
    assert!(swap.is_none() || swap == before, "{swap:?}");
    assert_eq!(running.cgroup("cpu", "cpu.cfs_quota_us").as_deref(), Some("-1"));
    running.limit(|it| it.cpu_mut().shares = Some(128)).await.unwrap();
}
