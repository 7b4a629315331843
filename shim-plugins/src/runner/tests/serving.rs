use std::collections::HashMap;

use ttrpc::Code;
use ttrpc::r#async::{Service, StreamHandler, StreamInner};

use super::*;
use crate::testing::{Daemon, FakeContainerd, RunningShim};
use crate::{Call, Interceptor, Next};

fn code<T: std::fmt::Debug>(answer: ttrpc::Result<T>) -> (Code, String) {
    let ttrpc::Error::RpcStatus(status) = answer.unwrap_err() else { panic!("there is no status") };
    (status.code(), status.message)
}

async fn ask(running: &RunningShim, service: &str, method: &str) -> (Code, String) {
    code(running.call::<_, api::Empty>(service, method, &api::Empty::new()).await)
}

#[tokio::test]
async fn what_is_not_there_is_unimplemented_and_a_panic_is_internal() {
    let containerd = FakeContainerd::new(Daemon::V2_3).unwrap();
    let running = containerd.start(&simple(), "c1").await.unwrap();
    for (service, method) in [
        (crate::server::task::V3, "Resume"),
        (crate::server::task::V2, "Resume"),
        (crate::server::task::V2, "NoSuchMethod"),
        ("containerd.runtime.sandbox.v1.Sandbox", "CreateSandbox"),
        ("containerd.services.transfer.v1.Transfer", "Transfer"),
    ] {
        assert_eq!(ask(&running, service, method).await.0, Code::UNIMPLEMENTED, "{service}/{method}");
    }
    let (panicked, text) = ask(&running, crate::server::task::V3, "Pause").await;
    assert_eq!((panicked, text.as_str()), (Code::INTERNAL, "/containerd.task.v3.Task/Pause panicked: not today"));
    running.terminate().await.unwrap();
}

/// A stream that panics or returns an error.
struct Broken(bool);

#[async_trait]
impl StreamHandler for Broken {
    async fn handler(&self, _: TtrpcContext, _: StreamInner) -> ttrpc::Result<Option<ttrpc::Response>> {
        assert!(!self.0, "not here");
        Err(ttrpc::Error::RpcStatus(ttrpc::get_status(Code::PERMISSION_DENIED, "no")))
    }
}

#[tokio::test]
async fn a_stream_that_panics_is_internal_and_one_that_refuses_is_heard() {
    let plugin = Plugin::at(PROBLEM).init(|_, ()| async {
        let stream = |panics| -> Arc<dyn StreamHandler + Send + Sync> { Arc::new(Broken(panics)) };
        let streams = HashMap::from([("Panic".to_owned(), stream(true)), ("Refuse".to_owned(), stream(false))]);
        let service = Service { methods: HashMap::new(), streams };
        Ok(Provided::new(Arc::new(())).service(HashMap::from([("s".to_owned(), service)])))
    });
    let shim = Arc::new(shim(&Arc::new(Semaphore::new(0))).plugin(plugin));
    let containerd = FakeContainerd::new(Daemon::V2_3).unwrap();
    let running = containerd.start(&shim, "c1").await.unwrap();
    assert_eq!(ask(&running, "s", "Panic").await, (Code::INTERNAL, "/s/Panic panicked: not here".to_owned()));
    assert_eq!(ask(&running, "s", "Refuse").await, (Code::PERMISSION_DENIED, "no".to_owned()));
    running.terminate().await.unwrap();
}

#[tokio::test]
async fn a_create_comes_to_its_end_though_its_caller_goes_away() {
    let created = Arc::new(Semaphore::new(0));
    let containerd = FakeContainerd::new(Daemon::V1_6).unwrap();
    let running = containerd.start(&Arc::new(shim(&created)), "c1").await.unwrap();
    let socket = ttrpc::asynchronous::transport::Socket::connect(&running.address).await.unwrap();
    let client = ttrpc::asynchronous::Client::new(socket);
    let mut request = ttrpc::Request::new();
    crate::server::task::V2.clone_into(&mut request.service);
    "Create".clone_into(&mut request.method);
    let call = tokio::time::timeout(Duration::from_millis(10), client.request(request)).await;
    assert!(call.is_err(), "it takes longer");
    drop(client);
    let done = tokio::time::timeout(Duration::from_secs(10), created.acquire()).await;
    done.unwrap().unwrap().forget();
    running.terminate().await.unwrap();
}

/// An interceptor that refuses every call, or passes every call on.
struct Gate(&'static str);

#[async_trait]
impl Interceptor for Gate {
    async fn call(&self, call: Call, next: Next) -> ttrpc::Result<ttrpc::Response> {
        if call.request.method == self.0 {
            return Err(ttrpc::Error::RpcStatus(ttrpc::get_status(Code::PERMISSION_DENIED, self.0)));
        }
        next.run(call).await
    }
}

#[tokio::test]
async fn an_interceptor_stands_before_all_methods() {
    let gate = Plugin::at(PROBLEM).init(|_, ()| async {
        let provided = Provided::new(Arc::new(())).interceptor(Arc::new(Gate("Connect")));
        Ok(provided.interceptor(Arc::new(Gate("Kill"))))
    });
    let shim = Arc::new(shim(&Arc::new(Semaphore::new(0))).plugin(gate));
    let containerd = FakeContainerd::new(Daemon::V2_0).unwrap();
    let running = containerd.start(&shim, "c1").await.unwrap();
    for method in ["Connect", "Kill"] {
        assert_eq!(ask(&running, crate::server::task::V2, method).await, (Code::PERMISSION_DENIED, method.to_owned()));
    }
    assert_eq!(ask(&running, crate::server::task::V2, "Resume").await.0, Code::UNIMPLEMENTED);
    running.terminate().await.unwrap();
}

#[tokio::test]
async fn g15_events_wait_while_containerd_is_away_and_then_come_in_order() {
    let mut containerd = FakeContainerd::new(Daemon::V2_3).unwrap();
    let running = containerd.start(&simple(), "c1").await.unwrap();
    let kill = |signal| api::KillRequest { signal, ..Default::default() };
    let _: api::Empty = running.task("Kill", &kill(3)).await.unwrap();
    containerd.heard(4).await;
    containerd.go_away();
    let _: api::Empty = running.task("Kill", &kill(200)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    containerd.come_back().unwrap();
    let events = containerd.heard(205).await;
    let statuses: Vec<_> = events[5..].iter().map(|seen| seen.event::<TaskExit>().unwrap().exit_status).collect();
    assert_eq!(statuses, (0..200).collect::<Vec<_>>());
    running.terminate().await.unwrap();
}
