//! Sockets in a process with an unusual state, and what remains in a process after a stop. The
//! tests change and count resources of the whole process, so each runs in its own process.

#![allow(clippy::unwrap_used, reason = "these are tests, and what they share")]

#[path = "../../tests/memory/own_process.rs"]
mod own_process;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::socket::Socket;
use nri_adaptation::{Adaptation, Config, Notice, Source, UpdatesFailed};
use nri_proto::call::{Client, Method, ServeLimits, serve};
use nri_proto::mux::{Channel, ChannelId, Limits, Mux};
use nri_proto::{Eviction, PluginId, Pod, Update, api, service};
use protobuf::Message as _;
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit};
use tokio_util::sync::CancellationToken;
use ttrpc::r#async::TtrpcContext;

use crate::own_process::in_own_process;

#[test]
fn a42_without_file_descriptors_nobody_is_let_in_until_there_are_some() {
    alone(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nri.sock");
        let socket = Socket::bind(&path).unwrap();
        let _plugin = UnixStream::connect(&path).unwrap();

        let limit = rustix::process::getrlimit(Resource::Nofile);
        rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..limit }).unwrap();
        let mut taken: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        assert!(!taken.is_empty());

        let accepted = tokio::time::timeout(Duration::from_millis(300), socket.accept()).await;
        assert!(accepted.is_err(), "somebody was let in without a file descriptor");
        taken.pop();
        let accepted = tokio::time::timeout(Duration::from_secs(10), socket.accept()).await;
        assert!(accepted.is_ok(), "nobody is let in any more");

        drop(taken);
        rustix::process::setrlimit(Resource::Nofile, limit).unwrap();
    });
}

#[test]
fn a_socket_is_not_open_to_others_whatever_the_umask_is() {
    alone(async {
        let before = rustix::process::umask(Mode::empty());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nri/nri.sock");
        let socket = Socket::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o7777, 0o700);
        drop(socket);
        rustix::process::umask(before);
    });
}

#[test]
fn stopping_leaves_no_task_no_socket_and_no_file_descriptor() {
    alone(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nri.sock");
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let before = (n_files(), tasks());
        {
            let config = Config { socket: Some(path.clone()), ..Config::default() };
            let nri = Adaptation::new(config, Arc::new(Nothing));
            nri.listen().unwrap();
            let good = [Plugin::join(&path, "10", true).await, Plugin::join(&path, "20", true).await];
            let silent = Plugin::join(&path, "30", false).await;
            until(|| nri.plugins().len() == 3).await;
            // Peers that only connected, that sent half of a frame, and that registered and then
            // never answer.
            let connected = UnixStream::connect(&path).unwrap();
            let mut half = UnixStream::connect(&path).unwrap();
            half.write_all(&[0, 0, 0, 2, 0, 0]).unwrap();
            let unconfigured = Plugin::register(&path, "40").await;
            // A plugin that is asked and does not answer.
            let asked = nri.begin(Pod::default());
            assert!(tokio::time::timeout(Duration::from_millis(100), asked.notify(Notice::RunPod)).await.is_err());
            assert!(n_files() >= before.0 + 13, "six connections have two ends each");

            tokio::time::timeout(Duration::from_secs(10), nri.stop()).await.expect("stopping hangs");
            for plugin in good.into_iter().chain([silent, unconfigured]) {
                tokio::time::timeout(Duration::from_secs(10), plugin.closed()).await.expect("a connection is left");
            }
            drop((connected, half));
            until(|| (n_files(), tasks()) == before).await;
            assert!(!path.exists(), "the socket is left");
        }
    });
}

fn n_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("it never comes to that");
}

/// A runtime without pods.
struct Nothing;

#[async_trait]
impl Source for Nothing {
    async fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }

    async fn apply(&self, _: &PluginId, updates: Vec<Update>, _: Vec<Eviction>) -> Result<Vec<Update>, UpdatesFailed> {
        Ok(updates)
    }
}

/// A plugin that answers every request, or only those that a join needs.
struct Plugin {
    mux: Mux,
    _served: Option<Channel>,
    serving: CancellationToken,
}

struct Answers(bool);

#[async_trait]
impl service::Plugin for Answers {
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

    async fn run_pod_sandbox(
        &self,
        _: &TtrpcContext,
        _: api::RunPodSandboxRequest,
    ) -> ttrpc::Result<api::RunPodSandboxResponse> {
        if !self.0 {
            // Longer than the tests wait. Handlers run to their end.
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
        Ok(api::RunPodSandboxResponse::new())
    }
}

impl Plugin {
    /// Registers and joins.
    async fn join(path: &Path, index: &str, answers: bool) -> Self {
        let mut plugin = Self::register(path, index).await;
        let services = Arc::new(service::create_plugin(Arc::new(Answers(answers))));
        let served = plugin._served.take().unwrap();
        tokio::spawn(serve(served, services, ServeLimits::default(), plugin.serving.clone()));
        plugin
    }

    /// Registers, and answers nothing.
    async fn register(path: &Path, index: &str) -> Self {
        let stream = tokio::net::UnixStream::connect(path).await.unwrap();
        let ids = [ChannelId::PLUGIN_SERVICE, ChannelId::RUNTIME_SERVICE];
        let (mux, [served, requests]) = Mux::on_unix(stream, ids, Limits::default()).unwrap();
        mux.admit();
        let id = api::RegisterPluginRequest {
            plugin_name: "a".to_owned(),
            plugin_idx: index.to_owned(),
            ..Default::default()
        };
        let method = Method { service: "nri.pkg.api.v1alpha1.Runtime", name: "RegisterPlugin" };
        let request = id.write_to_bytes().unwrap().into();
        Client::new(requests).call(method, request, Duration::from_secs(5)).await.unwrap();
        Self { mux, _served: Some(served), serving: CancellationToken::new() }
    }

    async fn closed(self) {
        self.mux.closed().await;
        self.serving.cancel();
    }
}

/// Runs a test in a process of its own.
fn alone(test: impl Future<Output = ()>) {
    in_own_process(test, |test| {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    });
}
