use std::fs;
use std::os::unix::net::UnixStream;

use super::*;
use crate::reaper::Exit;
use crate::runner::assignment::{Assignment, Starter};
use crate::runner::socket::Bound;
use crate::testing::{Daemon, FakeContainerd};

fn sockets(containerd: &FakeContainerd) -> usize {
    fs::read_dir(containerd.socket_dir()).map_or(0, Iterator::count)
}

#[tokio::test]
async fn a_signal_to_end_ends_it_in_order_and_one_to_diagnose_does_not() {
    let ended = Arc::new(Semaphore::new(0));
    let told = Arc::clone(&ended);
    let plugin = Plugin::at(PROBLEM).init(move |_, ()| {
        let told = Arc::clone(&told);
        async move { Ok(Provided::new(Arc::new(())).on_shutdown(move || async move { told.add_permits(1) })) }
    });
    let shim = Arc::new(shim(&Arc::new(Semaphore::new(0))).plugin(plugin));
    let containerd = FakeContainerd::new(Daemon::V2_3).unwrap();
    let running = containerd.start(&shim, "c1").await.unwrap();
    running.signal(Signal::Diagnose).await;
    let request = api::ConnectRequest::new();
    let _: api::ConnectResponse = running.task("Connect", &request).await.unwrap();
    running.terminate().await.unwrap();
    assert_eq!(ended.available_permits(), 1);
    assert_eq!(sockets(&containerd), 0);
}

#[tokio::test]
async fn an_end_does_not_wait_for_a_call_that_never_ends() {
    let containerd = FakeContainerd::new(Daemon::V2_3).unwrap();
    let running = containerd.start(&simple(), "c1").await.unwrap();
    let request = api::WaitRequest::new();
    let waiting = running.task::<_, api::WaitResponse>("Wait", &request);
    let ending = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        running.signal(Signal::End).await;
    };
    let (answer, ()) =
        tokio::time::timeout(Duration::from_secs(10), async { tokio::join!(waiting, ending) }).await.unwrap();
    assert!(answer.unwrap_err().to_string().contains("UNAVAILABLE"));
    running.ended().await.unwrap();
}

#[tokio::test]
async fn delete_cleans_up_after_kill_9_and_may_come_twice() {
    let exit = Exit { status: 7, at: std::time::SystemTime::UNIX_EPOCH };
    let cleanup = move |deleting: Deleting| async move {
        assert_eq!(deleting.id, "c1");
        Ok(Deleted { pid: 42, exit: Some(exit) })
    };
    let shim = Arc::new(shim(&Arc::new(Semaphore::new(0))).on_delete(cleanup));
    for daemon in Daemon::ALL {
        let containerd = FakeContainerd::new(daemon).unwrap();
        containerd.start(&shim, "c1").await.unwrap().kill().await;
        assert_eq!(sockets(&containerd), 1, "one that is killed cannot remove its socket");
        for _ in 0..2 {
            let deleted = containerd.delete(&shim, "c1").await.unwrap();
            assert_eq!((deleted.pid, deleted.exit_status), (42, 7));
            assert_eq!(sockets(&containerd), 0);
        }
        // And a new one may come, also if nobody cleaned up.
        containerd.start(&shim, "c1").await.unwrap().kill().await;
        containerd.start(&shim, "c1").await.unwrap().terminate().await.unwrap();
        assert_eq!(sockets(&containerd), 0);
    }
}

#[tokio::test]
async fn delete_leaves_the_socket_of_a_shim_that_lives_alone_and_says_137_if_nobody_saw_the_end() {
    let containerd = FakeContainerd::new(Daemon::V2_0).unwrap();
    let shim = simple();
    let running = containerd.start(&shim, "c1").await.unwrap();
    assert_eq!(containerd.delete(&shim, "c1").await.unwrap().exit_status, 137);
    assert_eq!(sockets(&containerd), 1);
    running.terminate().await.unwrap();
    // A bundle that is gone is no error either.
    fs::remove_dir_all(containerd.bundle("c1")).unwrap();
    assert_eq!(containerd.delete(&shim, "c1").await.unwrap().exit_status, 137);
}

#[tokio::test]
async fn g05_a_server_whose_starter_dies_before_it_has_answered_ends_and_leaves_no_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let Bound::New(file, listener) = socket::bind(&path).unwrap() else { panic!("it is new") };
    file.leave();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = Server { args: Vec::new(), directory: dir.path().to_owned(), listener, started: theirs.into() };
    let starting = tokio::task::spawn_blocking(move || {
        let assignment = Assignment { site: Default::default(), configuration: Default::default() };
        Starter::new(ours).assign(&assignment, Duration::from_secs(10))
        // Here it dies: containerd is not answered.
    });
    let (_signals, receive) = mpsc::channel(1);
    let error = simple().serve(server, receive).await.unwrap_err();
    assert!(matches!(error, ServeError::Unknown(_)), "{error}");
    starting.await.unwrap().unwrap();
    assert!(!dir.path().join("s").exists());
}

#[tokio::test]
async fn g05_a_server_whose_starter_dies_before_it_has_said_what_to_serve_leaves_no_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let Bound::New(file, listener) = socket::bind(&path).unwrap() else { panic!("it is new") };
    file.leave();
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(ours);
    let server = Server { args: Vec::new(), directory: dir.path().to_owned(), listener, started: theirs.into() };
    let (_signals, receive) = mpsc::channel(1);
    let error = simple().serve(server, receive).await.unwrap_err();
    assert!(matches!(error, ServeError::Assignment(_)), "{error}");
    assert!(!path.exists());
}
