use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use async_trait::async_trait;
use cri_domain::cri::{self, v1};
use cri_domain::generator::Host;
use cri_domain::generator::host::Allowlist;
use cri_domain::model::{ContainerRecord, ContainerStatus, Exit, PodRecord, PodState, PodStatus, ServerSettings};
use cri_domain::runtime::{ContainerLimits, RUNC_UPDATES, RuntimeError};
use cri_domain::store::{MemoryStore, Store};
use cri_domain::{CriDomain, CriHandle, Runtime};
use nri_api::{Config, ContainerState, Field, Nri};
use serde_json::{Value, json};

/// Runs containers with runc or a shim. This one runs nothing: a container that it stops has ended.
pub struct Shim {
    store: Arc<MemoryStore>,
}

#[async_trait]
impl Runtime for Shim {
    fn can_update(&self, field: Field) -> bool {
        RUNC_UPDATES.contains(&field)
    }

    async fn update(&self, id: &str, limits: &ContainerLimits) -> Result<(), RuntimeError> {
        // The input of `runc update --resources - ID`.
        let _input = limits.resources.to_string();
        println!("update {id}");
        Ok(())
    }

    async fn stop(&self, id: &str, grace: Duration) -> Result<(), RuntimeError> {
        println!("stop {id} within {grace:?}");
        self.store.change_container(id, &mut |record| record.status.exited(Exit::default()));
        Ok(())
    }
}

pub struct Server {
    pub nri: Nri,
    pub handle: CriHandle,
    store: Arc<MemoryStore>,
}

impl Server {
    pub fn new(config: Config) -> Result<Self> {
        let store = Arc::new(MemoryStore::default());
        let shim = Arc::new(Shim { store: Arc::clone(&store) });
        let host = Host::of_this_machine();
        let domain = CriDomain::new(Arc::clone(&store) as Arc<_>, shim, host, ServerSettings::default());
        let nri = Nri::new(config);
        let handle = CriHandle::register(&nri, "k8s.io", Arc::new(domain))?;
        Ok(Self { nri, handle, store })
    }
}

impl Server {
    pub async fn run_pod_sandbox(&self, id: &str, config: &v1::PodSandboxConfig, handler: &str) -> Result<()> {
        let pod = PodRecord {
            id: id.to_owned(),
            config: cri::pod_config(config, handler),
            status: PodStatus { state: PodState::Ready, ips: vec!["10.0.0.1".to_owned()], ..PodStatus::default() },
            ..PodRecord::default()
        };
        let run = self.handle.run_pod(&pod).await?;
        self.store.put_pod(pod);
        run.commit();
        Ok(())
    }

    pub async fn create_container(&self, id: &str, pod: &str, config: &v1::ContainerConfig, spec: Value) -> Result<()> {
        let mut container = ContainerRecord {
            id: id.to_owned(),
            pod_id: pod.to_owned(),
            config: cri::container_config(config),
            spec: Some(Arc::new(spec)),
            ..ContainerRecord::default()
        };
        let adjusted = self.handle.create_container(&mut container).await?;
        for field in &adjusted.ignored {
            println!("container {id}: {field} is not supported here, ignored");
        }
        // `container.spec` is adjusted now. Create the container with the runtime here.
        container.status = ContainerStatus { state: ContainerState::Created, ..ContainerStatus::default() };
        self.store.put_container(container);
        log_failure(id, adjusted.creation.created(self.handle.container(id)).await);
        Ok(())
    }

    pub async fn start_container(&self, id: &str) -> Result<()> {
        let start = self.handle.start_container(id).await?;
        // Start the container with the runtime here. It may have ended before the next line.
        self.store.change_container(id, &mut |record| {
            if record.status.state == ContainerState::Created {
                record.status.state = ContainerState::Running;
            }
        });
        log_failure(id, start.started(self.handle.container(id)).await);
        Ok(())
    }

    pub async fn update_container_resources(&self, request: &v1::UpdateContainerResourcesRequest) -> Result<()> {
        let resources = request.linux.as_ref().context("there is nothing to update")?;
        self.handle.update_container(&request.container_id, cri::resources(resources)).await?;
        Ok(())
    }

    /// Call this from the code that watches processes.
    pub fn container_exited(&self, id: &str, code: i32) {
        self.handle.container_exited(id, &Exit { code, ..Exit::default() });
    }

    pub async fn remove_container(&self, id: &str) -> Result<()> {
        log_failure(id, self.handle.remove_container(id).await);
        self.store.remove_container(id);
        Ok(())
    }

    pub async fn remove_pod_sandbox(&self, id: &str) -> Result<()> {
        self.store.change_pod(id, |record| record.status.state = PodState::NotReady);
        log_failure(id, self.handle.stop_pod(id).await);
        log_failure(id, self.handle.remove_pod(id).await);
        self.store.remove_pod(id);
        Ok(())
    }
}

/// Logs that a plugin failed to handle a notification. The operation itself has succeeded.
fn log_failure(id: &str, notified: Result<(), nri_api::Error>) {
    if let Err(error) = notified {
        println!("a plugin failed to handle a notification about {id}: {error}");
    }
}

/// Returns the functions of this machine, with the operator's exceptions.
pub fn host(annotations: Vec<String>, sysctls: Vec<String>) -> Host {
    // For example `io.katacontainers.config.hypervisor.*` and `vm.max_map_count`.
    Host { allow: Allowlist { annotations, sysctls }, ..Host::of_this_machine() }
}

#[cfg(test)]
mod tests {
    use nri_api::Domain;
    use nri_api::testing::contract::{Fixture, check};

    use super::*;

    fn server() -> Server {
        Server::new(Config { socket: None, plugin_path: None, ..Config::default() }).unwrap()
    }

    #[async_trait]
    impl Fixture for Server {
        fn domain(&self) -> &dyn Domain {
            &**self.handle.domain()
        }

        async fn run(&self, name: &str) -> (String, String) {
            let id = format!("{name}-app");
            self.run_pod_sandbox(name, &v1::PodSandboxConfig::default(), "").await.unwrap();
            self.create_container(&id, name, &v1::ContainerConfig::default(), json!({})).await.unwrap();
            self.start_container(&id).await.unwrap();
            (name.to_owned(), id)
        }

        async fn remove(&self, pod: &str, container: &str) {
            self.remove_container(container).await.unwrap();
            self.remove_pod_sandbox(pod).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_container_lives_and_its_limits_are_the_kubelets() {
        let server = server();
        server.nri.start().await.unwrap();
        server.run("web").await;
        let linux = v1::LinuxContainerResources { cpu_shares: 512, ..Default::default() };
        let request = v1::UpdateContainerResourcesRequest { container_id: "web-app".to_owned(), linux: Some(linux) };
        server.update_container_resources(&request).await.unwrap();
        let spec = server.store.container("web-app").unwrap().spec.clone().unwrap();
        assert_eq!(spec["linux"]["resources"]["cpu"]["shares"], 512);
        server.container_exited("web-app", 1);
        assert_eq!(server.handle.container("web-app").status_reason, "Error");
        server.remove("web", "web-app").await;
        server.nri.stop().await;
    }

    #[tokio::test]
    async fn it_is_what_every_domain_is() {
        let server = server();
        server.nri.start().await.unwrap();
        assert_eq!(check(&server).await, []);
    }
}
