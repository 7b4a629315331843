//! The pod and the container that benchmarks use, from the controller's files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nri_adaptation::snapshot::Snapshot;
use nri_proto::{Container, ContainerState, CreateReply, Pod, Resources, api};
use protobuf::Message;

use crate::protocol::Request;

/// The annotation that tells plugins how to answer.
pub(crate) const MODE: &str = "nribench/mode";

pub(crate) struct Payload {
    directory: PathBuf,
    pod: Pod,
    container: Container,
    seccomp: Container,
    update: Resources,
}

impl Payload {
    pub(crate) fn load(directory: &str) -> Result<Self> {
        let directory = Path::new(directory);
        Ok(Self {
            directory: directory.to_owned(),
            pod: read::<api::PodSandbox>(directory, "pod.bin")?.into(),
            container: read::<api::Container>(directory, "container.bin")?.into(),
            seccomp: read::<api::Container>(directory, "container_seccomp.bin")?.into(),
            update: read::<api::LinuxResources>(directory, "update_resources.bin")?.into(),
        })
    }

    /// Returns the pod of a caller. Different callers use different pods.
    pub(crate) fn pod(&self, caller: usize, mode: &str) -> Pod {
        let mut pod = self.pod.clone();
        pod.id = id("9d", caller);
        let mode = if mode.is_empty() { "empty" } else { mode };
        pod.annotations.insert(MODE.to_owned(), mode.to_owned());
        pod
    }

    pub(crate) fn container(&self, serial: usize, pod: &Pod, payload: &str) -> Container {
        let mut container = if payload == "seccomp" { self.seccomp.clone() } else { self.container.clone() };
        container.id = id("c7", serial);
        container.pod_id.clone_from(&pod.id);
        container
    }

    pub(crate) fn resources(&self) -> Resources {
        self.update.clone()
    }

    /// Returns the reply to a create of the plugin with this number.
    pub(crate) fn adjustment(&self, number: usize) -> Result<CreateReply> {
        let file = format!("rsp_create_adj_{number:02}.bin");
        Ok(read::<api::CreateContainerResponse>(&self.directory, &file)?.into())
    }

    /// Returns a snapshot with as many pods and containers as requested. The first container may be
    /// a large one.
    pub(crate) fn snapshot(&self, request: &Request) -> Snapshot {
        let pods: Vec<Pod> = (0..request.pods).map(|number| Pod { id: id("9d", number), ..self.pod.clone() }).collect();
        let containers = (0..request.containers).map(|number| {
            let nobody = Pod::default();
            let pod = pods.get(number % pods.len().max(1)).unwrap_or(&nobody);
            let mut container = self.container(number, pod, &request.payload);
            container.state = ContainerState::Running;
            if number == 0 && request.big_kb > 0 {
                container.env.push(format!("BIG={}", "x".repeat(request.big_kb << 10)));
            }
            container
        });
        Snapshot { containers: containers.collect(), pods }
    }
}

/// Returns the id of the container that plugins update when another one stops.
pub(crate) fn other_container() -> String {
    id("c7", 0xff_ffff)
}

fn read<M: Message>(directory: &Path, name: &str) -> Result<M> {
    let path = directory.join(name);
    let bytes = fs::read(&path).with_context(|| format!("could not read {}", path.display()))?;
    M::parse_from_bytes(&bytes).with_context(|| format!("could not parse {}", path.display()))
}

fn id(prefix: &str, number: usize) -> String {
    format!("{prefix}{number:062x}")
}
