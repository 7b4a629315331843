//! Tests of servers that nobody needs any longer.

use std::path::Path;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

use super::ends::{assignment, server};
use super::*;
use crate::ShimContext;
use crate::runner::abandoned::abandoned;
use crate::runner::handshake::HandshakeClient;
use crate::server::{Attendance, CallGuard};
use crate::testing::{Daemon, FakeContainerd, RunningShim};

/// A Task service without Shutdown. It refuses to create containers whose id begins with `bad`,
/// and finishes creating the container `slow` when the semaphore has a permit.
struct Endless(Arc<Semaphore>);

#[async_trait]
impl Task for Endless {
    async fn create(
        &self,
        _: &TtrpcContext,
        request: api::CreateTaskRequest,
    ) -> ttrpc::Result<api::CreateTaskResponse> {
        if request.id.starts_with("bad") {
            return Err(ttrpc::Error::RpcStatus(ttrpc::get_status(ttrpc::Code::ALREADY_EXISTS, "no")));
        }
        if request.id == "slow" {
            self.0.acquire().await.unwrap().forget();
        }
        Ok(api::CreateTaskResponse::new())
    }

    async fn delete(&self, _: &TtrpcContext, request: api::DeleteRequest) -> ttrpc::Result<api::DeleteResponse> {
        if request.id.starts_with("stuck") {
            return Err(ttrpc::Error::RpcStatus(ttrpc::get_status(ttrpc::Code::FAILED_PRECONDITION, "it runs")));
        }
        Ok(api::DeleteResponse::new())
    }
}

fn endless(go_on: &Arc<Semaphore>) -> Arc<Shim> {
    let go_on = Arc::clone(go_on);
    Arc::new(Shim::new("io.containerd.endless.v1", "0").plugin(Plugin::at(TASK).init(move |_, ()| {
        let task: Arc<dyn Task + Send + Sync> = Arc::new(Endless(Arc::clone(&go_on)));
        async move { Ok(Provided::new(Arc::clone(&task)).task(task)) }
    })))
}

async fn create(running: &RunningShim, id: &str) -> ttrpc::Result<api::CreateTaskResponse> {
    running.task("Create", &api::CreateTaskRequest { id: id.to_owned(), ..Default::default() }).await
}

async fn delete(running: &RunningShim, id: &str, exec_id: &str) -> ttrpc::Result<api::DeleteResponse> {
    let request = api::DeleteRequest { id: id.to_owned(), exec_id: exec_id.to_owned(), ..Default::default() };
    running.task("Delete", &request).await
}

async fn shut_down(running: &RunningShim) {
    let _: api::Empty = running.task("Shutdown", &api::ShutdownRequest::new()).await.unwrap();
}

/// Returns whether the server still creates containers. One that ends refuses.
async fn serves(running: &RunningShim) -> bool {
    let error = create(running, "bad").await.unwrap_err();
    matches!(error, ttrpc::Error::RpcStatus(status) if status.code() == ttrpc::Code::ALREADY_EXISTS)
}

#[tokio::test]
async fn a_shim_whose_author_wrote_no_shutdown_ends_at_the_shutdown_without_containers() {
    for daemon in Daemon::ALL {
        let go_on = Arc::new(Semaphore::new(0));
        let containerd = FakeContainerd::new(daemon).unwrap();
        let running = containerd.start(&endless(&go_on), "c1").await.unwrap();
        create(&running, "c1").await.unwrap();
        create(&running, "stuck").await.unwrap();
        create(&running, "bad1").await.unwrap_err();
        // The answer is that of Go's shim: OK, and nothing happens while there is a container.
        shut_down(&running).await;
        delete(&running, "c1", "exec1").await.unwrap();
        shut_down(&running).await;
        assert!(serves(&running).await, "a process of the container was deleted, not the container");
        delete(&running, "c1", "").await.unwrap();
        delete(&running, "stuck", "").await.unwrap_err();
        shut_down(&running).await;
        assert!(serves(&running).await, "a Delete that failed does not count");
        running.terminate().await.unwrap();

        let running = containerd.start(&endless(&go_on), "c1").await.unwrap();
        let creating = create(&running, "slow");
        let ending = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            shut_down(&running).await;
            go_on.add_permits(1);
        };
        let (created, ()) = tokio::join!(creating, ending);
        created.unwrap();
        assert!(serves(&running).await, "a Create was in progress");
        delete(&running, "slow", "").await.unwrap();
        shut_down(&running).await;
        running.ended().await.unwrap();
    }
}

/// Waits until a server with these bundles is abandoned, and returns after how long.
async fn abandoned_after(bundle: &Path, guard: &CallGuard, attendance: &Attendance) -> Duration {
    let begun = Instant::now();
    abandoned(bundle, guard.containers(), attendance.watch()).await;
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_bundle_is_gone_ends_after_a_minute_without_a_connection() {
    let dir = tempfile::tempdir().unwrap();
    let bundle = dir.path().join("c1");
    let guard = CallGuard::new(Arc::new([]), Default::default());
    let attendance = Attendance::default();
    // No client has ever connected.
    assert_eq!(abandoned_after(&bundle, &guard, &attendance).await, Duration::from_secs(10));

    std::fs::create_dir(&bundle).unwrap();
    let connect = async |greeting: &[u8]| {
        let (mut ours, theirs) = tokio::net::UnixStream::pair().unwrap();
        ours.write_all(greeting).await.unwrap();
        drop(ours);
        let mut theirs = attendance.count(theirs);
        theirs.read_to_end(&mut Vec::new()).await.unwrap();
        theirs
    };
    let first = connect(b"hello").await;
    let story = async {
        tokio::time::sleep(Duration::from_secs(1000)).await;
        drop(first);
        // The daemon restarts for longer than the limit, and the bundle is there.
        tokio::time::sleep(Duration::from_secs(500)).await;
        let second = connect(b"hello").await;
        std::fs::remove_dir(&bundle).unwrap();
        tokio::time::sleep(Duration::from_secs(1000)).await;
        drop(second);
        tokio::time::sleep(Duration::from_secs(59)).await;
        // A short connection counts, too, but not one without a word, as that of `delete`.
        drop(connect(b"hello").await);
        tokio::time::sleep(Duration::from_secs(59)).await;
        drop(connect(b"").await);
        Duration::from_secs(2559)
    };
    let (after, gone) = tokio::join!(abandoned_after(&bundle, &guard, &attendance), story);
    assert_eq!(after, gone + Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn a_bundle_that_goes_while_nobody_is_connected_is_noticed_and_that_of_another_container_counts() {
    let containerd = FakeContainerd::new(Daemon::V2_4).unwrap();
    let (bundle, other) = (containerd.bundle("c1"), containerd.bundle("c2"));
    std::fs::create_dir(&other).unwrap();
    let guard = CallGuard::new(Arc::new([]), Default::default());
    let create = api::CreateTaskRequest { bundle: other.display().to_string(), ..Default::default() };
    let request = ttrpc::Request {
        service: crate::server::task::V3.to_owned(),
        method: "Create".to_owned(),
        payload: protobuf::Message::write_to_bytes(&create).unwrap(),
        ..Default::default()
    };
    let creating = guard.containers().observe(&request);
    guard.containers().answered(creating, ttrpc::Response::new());
    let attendance = Attendance::default();
    let removing = async {
        tokio::time::sleep(Duration::from_secs(101)).await;
        std::fs::remove_dir(&other).unwrap();
    };
    let (after, ()) = tokio::join!(abandoned_after(&bundle, &guard, &attendance), removing);
    assert_eq!(after, Duration::from_secs(110));
}

#[tokio::test(start_paused = true)]
async fn g05_a_server_whose_starter_dies_before_containerd_has_the_address_ends_when_its_bundle_goes() {
    let dir = tempfile::tempdir().unwrap();
    let bundle = dir.path().join("c1");
    std::fs::create_dir(&bundle).unwrap();
    let (ours, path, server) = server(dir.path());
    let mut assignment = assignment();
    assignment.context = ShimContext { bundle: bundle.clone(), ..Default::default() };
    let starting = tokio::task::spawn_blocking(move || {
        let mut handshake = HandshakeClient::new(ours);
        handshake.assign(&assignment, Duration::from_secs(10)).unwrap();
        // `start` is killed here, after its last word to the server.
        handshake.answered().unwrap();
    });
    let (_signals, receive) = mpsc::channel(1);
    let removing = async {
        starting.await.unwrap();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(path.exists(), "a daemon that is away leaves the bundle, and ends nothing");
        std::fs::remove_dir(&bundle).unwrap();
    };
    let shim = simple();
    let (served, ()) = tokio::join!(shim.serve(server, receive), removing);
    served.unwrap();
    assert!(!path.exists());
}
