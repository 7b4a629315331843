//! Plugins on Go's own stub, let in and asked by our adaptation.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::{Adaptation, Config, Happening, Notice, Source};
use nri_proto::{Container, Eviction, PluginId, Pod, Update};
use nri_tests::go;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::sync::broadcast::Receiver;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);

/// A runtime with so many containers, each with so many bytes of environment.
struct Node {
    containers: usize,
    env: usize,
}

#[async_trait]
impl Source for Node {
    async fn snapshot(&self) -> Snapshot {
        let container = |number: usize| Container {
            id: format!("c{number}"),
            pod_id: "p".to_owned(),
            env: vec![format!("BIG={}", "x".repeat(self.env))],
            ..Container::default()
        };
        Snapshot { pods: vec![pod("p")], containers: (0..self.containers).map(container).collect() }
    }

    async fn apply(&self, _: &PluginId, _: Vec<Update>, _: Vec<Eviction>) -> Vec<Update> {
        Vec::new()
    }
}

pub(crate) fn pod(id: &str) -> Pod {
    Pod { id: id.to_owned(), name: id.to_owned(), ..Pod::default() }
}

pub(crate) fn container(id: &str) -> Container {
    Container { id: id.to_owned(), pod_id: "p".to_owned(), ..Container::default() }
}

pub(crate) struct Runtime {
    pub(crate) nri: Adaptation,
    happenings: Receiver<Happening>,
    directory: tempfile::TempDir,
}

impl Runtime {
    fn start(node: Node) -> Self {
        Self::with("", Arc::new(node))
    }

    /// With this configuration, in TOML.
    pub(crate) fn with(config: &str, source: Arc<dyn Source>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = Some(directory.path().join("nri.sock"));
        let nri = Adaptation::new(Config { socket, ..Config::from_toml(config).unwrap() }, source);
        let happenings = nri.watch();
        nri.listen().unwrap();
        Self { nri, happenings, directory }
    }

    pub(crate) fn plugin(&self, program: &std::path::Path, index: &str) -> Child {
        let mut command = Command::new(program);
        command.arg("-socket").arg(self.directory.path().join("nri.sock")).args(["-index", index]);
        command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap()
    }

    pub(crate) async fn next(&mut self) -> Happening {
        timeout(LIMIT, self.happenings.recv()).await.expect("nothing happens").unwrap()
    }
}

/// Each event of a pod's whole life, to a plugin that subscribed to all of them.
#[tokio::test]
async fn a_go_plugin_joins_hears_a_whole_life_in_order_and_is_told_to_go() {
    let Ok(program) = go::program("benchplugin") else { return };
    let mut runtime = Runtime::start(Node { containers: 1, env: 10 });
    let mut child = runtime.plugin(&program, "7");
    let Happening::Joined { plugin, .. } = runtime.next().await else { panic!("it did not join") };
    assert_eq!(plugin.as_str(), "07-bench");

    let life = runtime.nri.begin(pod("p"));
    life.notify(Notice::RunPod).await.unwrap();
    life.notify(Notice::UpdatePod { overhead: None, resources: None }).await.unwrap();
    life.notify(Notice::PostUpdatePod).await.unwrap();
    assert_eq!(life.create_container(container("c")).await.unwrap().len(), 1);
    life.notify(Notice::PostCreate(container("c"))).await.unwrap();
    life.notify(Notice::Start(container("c"))).await.unwrap();
    life.notify(Notice::PostStart(container("c"))).await.unwrap();
    assert_eq!(life.update_container(container("c"), None).await.unwrap().len(), 1);
    life.notify(Notice::PostUpdate(container("c"))).await.unwrap();
    assert_eq!(life.stop_container(container("c")).await.unwrap().len(), 1);
    life.notify(Notice::Remove(container("c"))).await.unwrap();
    life.notify(Notice::StopPod).await.unwrap();
    life.notify(Notice::RemovePod).await.unwrap();
    life.commit();

    // All but the validation, which is the next step's.
    for _ in 0..nri_proto::Event::ALL.len() - 1 {
        let Happening::Asked { failure, event, .. } = runtime.next().await else { panic!("it was not asked") };
        assert_eq!(failure, None, "{event:?}");
    }
    runtime.nri.stop().await;
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).await.unwrap();
    assert_eq!(said.trim(), r#"{"started":1}"#);
    timeout(LIMIT, child.wait()).await.unwrap().unwrap();
}

/// A07: it may come back.
#[tokio::test]
async fn a_go_plugin_that_is_killed_is_gone_and_may_join_again() {
    let Ok(program) = go::program("benchplugin") else { return };
    let mut runtime = Runtime::start(Node { containers: 0, env: 0 });
    for _ in 0..3 {
        let mut child = runtime.plugin(&program, "7");
        assert!(matches!(runtime.next().await, Happening::Joined { .. }));
        child.kill().await.unwrap();
        assert!(matches!(runtime.next().await, Happening::Closed { .. }));
        assert!(runtime.nri.plugins().is_empty());
    }
    runtime.nri.stop().await;
}
