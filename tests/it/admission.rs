//! Peers that misbehave before they are admitted as plugins.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::{Adaptation, Config, Source, UpdatesFailed};
use nri_proto::call::{CallError, Client, Method, ServeLimits, serve};
use nri_proto::mux::{ChannelId, Limits, Mux};
use nri_proto::{Eviction, PluginId, Update, api, service};
use nri_tests::wire::{RUNTIME, encode, request};
use protobuf::Message;
use tokio::net::UnixStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use ttrpc::Code;
use ttrpc::r#async::TtrpcContext;

use crate::raw::Raw;

const LIMIT: Duration = Duration::from_secs(20);

/// A runtime without containers. It records which plugin asked for which updates.
#[derive(Default)]
struct Node(Mutex<Vec<String>>);

#[async_trait]
impl Source for Node {
    async fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }

    async fn apply(
        &self,
        plugin: &PluginId,
        updates: Vec<Update>,
        evictions: Vec<Eviction>,
    ) -> Result<Vec<Update>, UpdatesFailed> {
        let mut wanted = self.0.lock().unwrap();
        wanted.extend(updates.iter().map(|update| format!("{plugin} updates {}", update.container_id)));
        wanted.extend(evictions.iter().map(|eviction| format!("{plugin} evicts {}", eviction.container_id)));
        Ok(Vec::new())
    }
}

struct Runtime {
    nri: Adaptation,
    node: Arc<Node>,
    directory: tempfile::TempDir,
}

impl Runtime {
    fn start() -> Self {
        Self::with("")
    }

    /// Starts a runtime with this configuration.
    fn with(config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = Config { socket: Some(directory.path().join("nri.sock")), ..Config::from_toml(config).unwrap() };
        let node = Arc::new(Node::default());
        let nri = Adaptation::new(config, Arc::clone(&node) as Arc<dyn Source>);
        nri.listen().unwrap();
        Self { nri, node, directory }
    }

    async fn stream(&self) -> UnixStream {
        UnixStream::connect(self.directory.path().join("nri.sock")).await.unwrap()
    }

    async fn peer(&self) -> Peer {
        Peer::over(self.stream().await)
    }

    async fn until_joined(&self, count: usize) {
        let joined = async {
            while self.nri.plugins().len() != count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(LIMIT, joined).await.unwrap();
    }
}

/// A plugin that is written at the level of the wire: it answers each request with an empty
/// message.
struct Peer {
    mux: Mux,
    runtime: Client,
}

struct Quiet;

#[async_trait]
impl service::Plugin for Quiet {
    async fn configure(&self, _: &TtrpcContext, _: api::ConfigureRequest) -> ttrpc::Result<api::ConfigureResponse> {
        Ok(api::ConfigureResponse::new())
    }

    async fn synchronize(
        &self,
        _: &TtrpcContext,
        _: api::SynchronizeRequest,
    ) -> ttrpc::Result<api::SynchronizeResponse> {
        Ok(api::SynchronizeResponse::new())
    }
}

impl Peer {
    fn over(stream: UnixStream) -> Self {
        let ids = [ChannelId::PLUGIN_SERVICE, ChannelId::RUNTIME_SERVICE];
        let (mux, [served, requests]) = Mux::on_unix(stream, ids, Limits::default()).unwrap();
        mux.admit();
        let services = Arc::new(service::create_plugin(Arc::new(Quiet)));
        tokio::spawn(serve(served, services, ServeLimits::default(), CancellationToken::new()));
        Self { mux, runtime: Client::new(requests) }
    }

    async fn register(&self, index: &str, name: &str) -> Result<(), CallError> {
        let request = api::RegisterPluginRequest {
            plugin_name: name.to_owned(),
            plugin_idx: index.to_owned(),
            ..Default::default()
        };
        self.call("RegisterPlugin", &request).await.map(drop)
    }

    async fn update(&self, container: &str) -> Result<(), CallError> {
        let update = api::ContainerUpdate { container_id: container.to_owned(), ..Default::default() };
        let evict = api::ContainerEviction { container_id: container.to_owned(), ..Default::default() };
        let request = api::UpdateContainersRequest { update: vec![update], evict: vec![evict], ..Default::default() };
        self.call("UpdateContainers", &request).await.map(drop)
    }

    async fn call(&self, name: &'static str, request: &impl Message) -> Result<Bytes, CallError> {
        let method = Method { service: RUNTIME, name };
        self.runtime.call(method, encode(request).into(), LIMIT).await
    }

    /// Returns how long the runtime takes to close the connection.
    async fn closed(&self) -> Duration {
        let before = Instant::now();
        timeout(LIMIT, self.mux.closed()).await.expect("the connection stays open");
        before.elapsed()
    }
}

#[track_caller]
fn assert_code(outcome: &Result<(), CallError>, expected: Code) {
    assert!(matches!(outcome, Err(CallError::Refused { code, .. }) if *code == expected), "{outcome:?}");
}

/// U3, A06.
#[tokio::test]
async fn u3_a_peer_that_has_not_registered_updates_nothing() {
    let runtime = Runtime::start();
    let peer = runtime.peer().await;
    assert_code(&peer.update("c").await, Code::FAILED_PRECONDITION);
    assert!(runtime.node.0.lock().unwrap().is_empty());
    peer.register("10", "a").await.unwrap();
    peer.update("c").await.unwrap();
    assert_eq!(*runtime.node.0.lock().unwrap(), ["10-a updates c", "10-a evicts c"]);
    runtime.nri.stop().await;
}

/// U4, A04.
#[tokio::test]
async fn u4_a_peer_that_was_refused_is_told_why_and_closed_at_once() {
    let runtime = Runtime::start();
    for (index, name) in [("1", "a"), ("xx", "a"), ("10", ""), ("10", "a b")] {
        let peer = runtime.peer().await;
        assert_code(&peer.register(index, name).await, Code::INVALID_ARGUMENT);
        let after = peer.closed().await;
        assert!(after < Duration::from_secs(2), "{after:?}");
    }
    assert!(runtime.nri.plugins().is_empty());
    runtime.nri.stop().await;
}

/// The user is the one that the kernel reports for the socket.
#[tokio::test]
async fn a_process_is_a_plugin_only_under_the_names_of_its_own_user() {
    let own = nix::unistd::geteuid().as_raw();
    let other = own + 1;
    let runtime = Runtime::with(&format!(
        "allowed_uids = [{own}, {other}]\n[plugins.mine]\nuids = [{own}]\n[plugins.other]\nuids = [{other}]"
    ));
    let impostor = runtime.peer().await;
    assert_code(&impostor.register("10", "other").await, Code::PERMISSION_DENIED);
    assert!(impostor.update("c").await.is_err());
    assert!(impostor.closed().await < Duration::from_secs(2));
    let peer = runtime.peer().await;
    peer.register("10", "mine").await.unwrap();
    runtime.until_joined(1).await;
    assert_eq!(runtime.nri.plugins()[0].identity.uid, Some(own));
    assert!(runtime.node.0.lock().unwrap().is_empty());
    runtime.nri.stop().await;
}

/// A runtime that attaches connections may not know whose they are.
#[tokio::test]
async fn a_peer_of_an_unknown_user_displaces_no_plugin_that_must_be_there() {
    for (table, is_displaced) in [("required = true", false), ("validator = true", false), ("", true)] {
        let runtime = Runtime::with(&format!("[plugins.guard]\n{table}"));
        let guard = Raw::join(&runtime.nri, "10-guard").await;
        let mut impostor = Raw::connect(&runtime.nri);
        impostor.register("10-guard").await;
        let status = impostor.answered().await.status;
        assert_eq!(status.is_none(), is_displaced, "{table}: {status:?}");
        if let Some(status) = status.as_ref() {
            assert_eq!(status.code, Code::ALREADY_EXISTS.into());
            assert!(
                status.message.contains("the new one is connected to the runtime by an unknown user"),
                "{status:?}"
            );
            drop(guard);
            runtime.until_joined(0).await;
            // Nothing is displaced once the first has left.
            drop(Raw::join(&runtime.nri, "10-guard").await);
        }
        runtime.nri.stop().await;
    }
}

#[tokio::test]
async fn a_process_of_a_user_who_may_not_connect_is_refused_whatever_it_says() {
    let runtime = Runtime::with(&format!("allowed_uids = [{}]", nix::unistd::geteuid().as_raw() + 1));
    let peer = runtime.peer().await;
    assert!(peer.register("10", "a").await.is_err());
    assert!(peer.update("c").await.is_err());
    assert!(peer.closed().await < Duration::from_secs(2));
    assert!(runtime.nri.plugins().is_empty());
    assert!(runtime.node.0.lock().unwrap().is_empty());
    runtime.nri.stop().await;
}

#[tokio::test]
async fn silent_peers_of_one_user_have_its_share_of_the_places_and_no_more() {
    let own = nix::unistd::geteuid().as_raw();
    let runtime = Runtime::with(&format!("allowed_uids = [{own}, {}]\nmax_unregistered = 4", own + 1));
    let _silent = [runtime.stream().await, runtime.stream().await];
    let refused = runtime.peer().await;
    assert!(refused.register("10", "a").await.is_err());
    assert!(refused.closed().await < Duration::from_secs(2));
    runtime.nri.stop().await;
}

/// U5, A01.
#[tokio::test]
async fn u5_peers_that_never_register_hold_up_nobody() {
    let runtime = Runtime::start();
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(runtime.stream().await);
    }
    let before = Instant::now();
    let peer = runtime.peer().await;
    peer.register("10", "a").await.unwrap();
    runtime.until_joined(1).await;
    assert!(before.elapsed() < Duration::from_secs(3), "{:?}", before.elapsed());
    runtime.nri.stop().await;
}

/// U10, A05.
#[tokio::test]
async fn u10_a_plugin_cannot_become_another_one() {
    let runtime = Runtime::start();
    let peer = runtime.peer().await;
    peer.register("10", "a").await.unwrap();
    runtime.until_joined(1).await;
    assert_code(&peer.register("00", "policy").await, Code::ALREADY_EXISTS);
    assert!(peer.closed().await < Duration::from_secs(2));
    runtime.until_joined(0).await;
    runtime.nri.stop().await;
}

/// A18: two bytes each on the wire, hundreds in memory.
#[tokio::test]
async fn a_request_of_a_million_empty_updates_is_refused_before_it_is_read() {
    let runtime = Runtime::start();
    let peer = runtime.peer().await;
    peer.register("10", "a").await.unwrap();
    let method = Method { service: RUNTIME, name: "UpdateContainers" };
    let refused = peer.runtime.call(method, [0x0a, 0].repeat(1 << 20).into(), LIMIT).await;
    assert_code(&refused.map(drop), Code::RESOURCE_EXHAUSTED);
    peer.update("c").await.unwrap();
    runtime.nri.stop().await;
}

/// A peer that never reads its requests cannot keep the runtime from stopping.
#[tokio::test]
async fn stopping_does_not_wait_for_a_peer_that_does_not_read() {
    let runtime = Runtime::start();
    let mut stream = runtime.stream().await;
    let register =
        api::RegisterPluginRequest { plugin_name: "a".to_owned(), plugin_idx: "10".to_owned(), ..Default::default() };
    let mut wire = request(1, RUNTIME, "RegisterPlugin", encode(&register));
    for number in 1..20_000 {
        wire.extend(request(2 * number + 1, &"s".repeat(200), "m", Vec::new()));
    }
    // The peer may be closed before it has sent everything.
    let _ = timeout(Duration::from_secs(3), tokio::io::AsyncWriteExt::write_all(&mut stream, &wire)).await;
    timeout(LIMIT, runtime.nri.stop()).await.expect("stopping hangs");
}

/// A02.
#[tokio::test]
async fn peers_that_come_and_go_leave_nothing_behind() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let runtime = Runtime::start();
    for _ in 0..500 {
        drop(runtime.stream().await);
    }
    let peer = runtime.peer().await;
    peer.register("10", "a").await.unwrap();
    runtime.until_joined(1).await;
    runtime.nri.stop().await;
    peer.closed().await;
    drop(peer);
    let ended = async {
        while tasks() > before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(LIMIT, ended).await.expect("a task is left");
}
