//! Tests of `grpc_shim` as a process, called by Go over its socket and over TCP, without containerd
//! and without root.

#![cfg(feature = "grpc")]
#![allow(clippy::unwrap_used, reason = "these are tests")]

#[path = "daemons/caller.rs"]
mod caller;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use shim_plugins::protobuf::Message as _;
use shim_plugins::protos::api::ShutdownRequest;
use shim_plugins::protos::bootstrap_api::{BootstrapParams, BootstrapResult};
use shim_plugins::protos::shim_async::TaskClient;
use shim_plugins::ttrpc::asynchronous::Client;
use shim_plugins::ttrpc::asynchronous::transport::Socket;
use shim_plugins::ttrpc::context;

const GREET: &str = "/hello.v1.Hello/Greet";

/// Starts the shim in a bundle, as containerd 2.3 and later do, and returns the answer.
fn start(bundle: &Path) -> BootstrapResult {
    let shim = std::env::current_exe().unwrap().parent().and_then(Path::parent).unwrap().join("examples/grpc_shim");
    let mut params = BootstrapParams::new();
    "c1".clone_into(&mut params.instance_id);
    "ns".clone_into(&mut params.namespace);
    params.socket_dir = Some(bundle.join("s").display().to_string());
    let mut child = Command::new(shim)
        .args(["-namespace", "ns", "-id", "c1", "-address", "/nowhere", "start"])
        .current_dir(bundle)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&params.write_to_bytes().unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    BootstrapResult::parse_from_bytes(&output.stdout).unwrap()
}

/// A running shim. Dropping it ends the shim over ttrpc, on the same socket.
struct Running(String);

impl Drop for Running {
    fn drop(&mut self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let task = TaskClient::new(Client::new(Socket::connect(&self.0).await.unwrap()));
            task.shutdown(context::with_duration(Duration::from_secs(10)), &ShutdownRequest::new()).await.unwrap();
        });
    }
}

#[test]
fn go_calls_a_shim_over_grpc_on_its_socket_and_over_tcp() {
    let Some(caller) = caller::caller() else { return };
    let bundle = tempfile::tempdir().unwrap();
    let BootstrapResult { address, protocol, version, .. } = start(bundle.path());
    let running = Running(address.clone());
    // Every containerd speaks ttrpc, and none works with a shim that announces gRPC: see the module
    // `grpc`.
    assert_eq!((protocol.as_str(), version), ("ttrpc", 3));
    let tcp = fs::read_to_string(bundle.path().join("io.containerd.grpc.v1.hello/address")).unwrap();
    let questions = [
        json!({ "method": GREET, "text": "world" }),
        json!({ "method": GREET, "text": "all of you", "calls": 200 }),
        json!({ "method": GREET, "text": "x", "repeat": 1 << 20 }),
        json!({ "method": GREET, "text": "x", "repeat": 5 << 20 }),
        json!({ "method": "/containerd.task.v3.Task/Connect", "text": "c1" }),
        json!({ "method": "/containerd.task.v3.Task/Checkpoint", "text": "c1" }),
        json!({ "method": "/containerd.runtime.sandbox.v1.Sandbox/CreateSandbox" }),
        json!({ "method": GREET, "text": "again" }),
    ];
    for (target, connects) in [(address.as_str(), "OK"), (tcp.as_str(), "Unimplemented")] {
        let answers = caller::ask(&caller, target, &questions);
        let codes: Vec<_> = answers.iter().map(|(code, _)| code.as_str()).collect();
        let expected = ["OK", "OK", "OK", "OutOfRange", connects, "Unimplemented", "Unimplemented", "OK"];
        assert_eq!(codes, expected, "{target}");
        let texts = [0, 1, 7].map(|index: usize| answers[index].1.as_str());
        assert_eq!(texts, ["hello, world", "hello, all of you", "hello, again"]);
        assert_eq!(answers[2].1.len(), "hello, ".len() + (1 << 20));
    }
    drop(running);
    let over = Instant::now() + Duration::from_secs(10);
    let is_there = || std::net::TcpStream::connect(&tcp).is_ok() || fs::exists(&address["unix://".len()..]).unwrap();
    while is_there() {
        assert!(Instant::now() < over, "the shim does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}
