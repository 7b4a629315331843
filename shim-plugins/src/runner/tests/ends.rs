use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::*;
use crate::process::Exit;
use crate::runner::handshake::{Assignment, HandshakeClient};
use crate::runner::socket::BindOutcome;
use crate::testing::{Bundle, Daemon, FakeContainerd};

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
    running.signal(ControlSignal::Diagnose).await;
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
        running.signal(ControlSignal::End).await;
    };
    let (answer, ()) =
        tokio::time::timeout(Duration::from_secs(10), async { tokio::join!(waiting, ending) }).await.unwrap();
    assert!(answer.unwrap_err().to_string().contains("UNAVAILABLE"));
    running.ended().await.unwrap();
}

#[tokio::test]
async fn where_containerd_debugs_there_is_a_socket_that_says_how_the_plugins_are() {
    let plugin =
        Plugin::at(PROBLEM).init(|_, ()| async { Ok(Provided::new(Arc::new(())).debug("mood", || "fine".to_owned())) });
    let shim = Arc::new(shim(&Arc::new(Semaphore::new(0))).plugin(plugin));
    for daemon in Daemon::ALL {
        let containerd = FakeContainerd::new(daemon).unwrap();
        let debugging = Bundle { debug: true, ..Bundle::default() };
        let running = containerd.start_with(&shim, "c1", &debugging).await.unwrap();
        let _: api::ConnectResponse = running.task("Connect", &api::ConnectRequest::new()).await.unwrap();
        let own = socket_path::path_of(&running.address).unwrap();
        let other = || fs::read_dir(containerd.socket_dir()).unwrap().flatten().find(|entry| entry.path() != own);
        let debug = loop {
            match other() {
                Some(entry) => break entry.path(),
                None => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        };
        let mut said = String::new();
        let mut stream = tokio::net::UnixStream::connect(debug).await.unwrap();
        tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut said).await.unwrap();
        assert!(said.contains("k.problem mood: fine\n"), "{said}");
        // The end of the shim removes the debug socket; after kill -9, `delete` does.
        if daemon == Daemon::V2_0 {
            running.kill().await;
            containerd.delete(&shim, "c1").await.unwrap();
        } else {
            running.terminate().await.unwrap();
        }
        assert_eq!(sockets(&containerd), 0);
    }
}

#[tokio::test]
async fn who_waits_for_a_container_hears_how_it_ended_when_the_shim_is_told_to_end() {
    let containerd = FakeContainerd::new(Daemon::V2_3).unwrap();
    let ended = Arc::default();
    let running = containerd.start(&killing(&ended), "c1").await.unwrap();
    let request = api::WaitRequest::new();
    let waiting = running.task::<_, api::WaitResponse>("Wait", &request);
    let ending = async {
        while ended.receiver_count() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        running.signal(ControlSignal::End).await;
    };
    let (answer, ()) = tokio::join!(waiting, ending);
    assert_eq!(answer.unwrap().exit_status, 137);
    running.ended().await.unwrap();
    assert_eq!(containerd.events().len(), 1, "the exit was told before the end");
}

#[tokio::test]
async fn a_shim_that_ends_makes_nothing_more_but_still_answers() {
    let (reached, go_on) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let hook = (Arc::clone(&reached), Arc::clone(&go_on));
    let plugin = Plugin::at(PROBLEM).init(move |_, ()| {
        let (reached, go_on) = hook.clone();
        async move {
            Ok(Provided::new(Arc::new(())).on_shutdown(move || async move {
                reached.add_permits(1);
                go_on.acquire().await.unwrap().forget();
            }))
        }
    });
    let shim = Arc::new(shim(&Arc::new(Semaphore::new(0))).plugin(plugin));
    let containerd = FakeContainerd::new(Daemon::V2_3).unwrap();
    let running = containerd.start(&shim, "c1").await.unwrap();
    let request = api::ConnectRequest { id: "c1".to_owned(), ..Default::default() };
    let _: api::ConnectResponse = running.task("Connect", &request).await.unwrap();
    running.signal(ControlSignal::End).await;
    reached.acquire().await.unwrap().forget();
    let refusal = running.task::<_, api::Empty>("Create", &api::CreateTaskRequest::new()).await.unwrap_err();
    assert!(refusal.to_string().contains("UNAVAILABLE"), "{refusal}");
    let connected: api::ConnectResponse = running.task("Connect", &request).await.unwrap();
    assert_eq!(connected.version, "c1");
    go_on.add_permits(1);
    running.ended().await.unwrap();
}

#[tokio::test]
async fn delete_cleans_up_after_kill_9_and_may_come_twice() {
    let exit = Exit { status: 7, at: SystemTime::UNIX_EPOCH };
    let cleanup = move |deleting: CleanupTarget| async move {
        assert_eq!(deleting.id, "c1");
        Ok(CleanupReport { pid: 42, exit: Some(exit) })
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
        // A new shim can start, even without a cleanup.
        containerd.start(&shim, "c1").await.unwrap().kill().await;
        containerd.start(&shim, "c1").await.unwrap().terminate().await.unwrap();
        assert_eq!(sockets(&containerd), 0);
    }
}

#[tokio::test]
async fn delete_tells_what_was_written_down_or_the_time_of_its_clock() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    let shim = Arc::new(shim(&Arc::new(Semaphore::new(0))).clock(Clock::new(move || now)));
    let containerd = FakeContainerd::new(Daemon::V2_3).unwrap();
    containerd.start(&shim, "c1").await.unwrap().kill().await;
    let deleted = containerd.delete(&shim, "c1").await.unwrap();
    assert_eq!((deleted.pid, deleted.exit_status, deleted.exited_at.seconds), (0, 137, 1000));

    let exit = Exit { status: 7, at: now - Duration::from_secs(1) };
    crate::ExitRecord { pid: 42, exit }.write(&containerd.bundle("c1")).unwrap();
    let deleted = containerd.delete(&shim, "c1").await.unwrap();
    assert_eq!((deleted.pid, deleted.exit_status, deleted.exited_at.seconds), (42, 7, 999));
}

#[tokio::test]
async fn delete_leaves_the_socket_of_a_shim_that_lives_alone_and_says_137_if_nobody_saw_the_end() {
    let containerd = FakeContainerd::new(Daemon::V2_0).unwrap();
    let shim = simple();
    let running = containerd.start(&shim, "c1").await.unwrap();
    assert_eq!(containerd.delete(&shim, "c1").await.unwrap().exit_status, 137);
    assert_eq!(sockets(&containerd), 1);
    running.terminate().await.unwrap();
    // A bundle that is gone is not an error either.
    fs::remove_dir_all(containerd.bundle("c1")).unwrap();
    assert_eq!(containerd.delete(&shim, "c1").await.unwrap().exit_status, 137);
}

/// Returns the parameters of a server, its socket, and our end of its handshake.
pub(super) fn server(dir: &Path) -> (UnixStream, PathBuf, ServerParams) {
    let path = dir.join("s");
    let BindOutcome::New(file, listener) = socket::bind(&path).unwrap() else { panic!("it is new") };
    file.leave();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = ServerParams { args: Vec::new(), directory: dir.to_owned(), listener, handshake: theirs.into() };
    (ours, path, server)
}

pub(super) fn assignment() -> Assignment {
    Assignment { context: Default::default(), configuration: Default::default() }
}

/// Returns a shim with a plugin that never finishes loading, after one that does. The plugins
/// report what they do.
fn slow() -> (Arc<Shim>, mpsc::UnboundedReceiver<&'static str>) {
    let (tell, told) = mpsc::unbounded_channel();
    let first = tell.clone();
    let first = Plugin::at(Slot::<()>::new("k", "first")).init(move |_, ()| {
        let tell = first.clone();
        let hook = move || async move {
            let _ = tell.send("first ended");
        };
        async move { Ok(Provided::new(Arc::new(())).on_shutdown(hook)) }
    });
    let slow = Plugin::at(PROBLEM).limit(Duration::from_secs(3600)).init(move |_, ()| {
        let tell = tell.clone();
        async move {
            let _ = tell.send("slow began");
            std::future::pending().await
        }
    });
    (Arc::new(Shim::new("slow", "0").plugin(first).plugin(slow)), told)
}

#[tokio::test]
async fn a_signal_to_end_is_heard_while_plugins_are_loaded_and_ends_them_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, path, server) = server(dir.path());
    let (shim, mut told) = slow();
    let starting =
        tokio::task::spawn_blocking(move || HandshakeClient::new(ours).assign(&assignment(), Duration::from_secs(10)));
    let (signals, receive) = mpsc::channel(1);
    let (served, ()) = tokio::join!(shim.serve(server, receive), async {
        assert_eq!(told.recv().await, Some("slow began"));
        signals.send(ControlSignal::End).await.unwrap();
    });
    let reason = "could not load the plugins: told to end while plugin k.problem was being loaded";
    assert_eq!(why(&served.unwrap_err()), reason);
    assert_eq!(starting.await.unwrap().unwrap_err().to_string(), reason);
    assert_eq!(told.recv().await, Some("first ended"));
    assert!(!path.exists());
}

#[tokio::test]
async fn g05_a_start_that_is_cancelled_ends_the_server_while_its_plugins_are_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, path, server) = server(dir.path());
    let (shim, mut told) = slow();
    let (_signals, receive) = mpsc::channel(1);
    let starting = async move {
        let starter = ours.try_clone().unwrap();
        let assigning = tokio::task::spawn_blocking(move || {
            HandshakeClient::new(starter).assign(&assignment(), Duration::from_millis(100))
        });
        assert!(matches!(assigning.await.unwrap(), Err(ServerError::TooSlow(_))));
        assert_eq!(told.recv().await, Some("slow began"));
        drop(ours);
        assert_eq!(told.recv().await, Some("first ended"));
    };
    let (served, ()) = tokio::join!(shim.serve(server, receive), starting);
    assert!(served.is_err());
    assert!(!path.exists());
}

#[tokio::test]
async fn a_server_that_cannot_read_what_to_serve_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let (mut ours, path, server) = server(dir.path());
    let (_signals, receive) = mpsc::channel(1);
    let talking = tokio::task::spawn_blocking(move || {
        io::Write::write_all(&mut ours, &[0, 0, 0, 0, 0, 0, 0, 2, b'{', b'}']).unwrap();
        let mut said = String::new();
        io::Read::read_to_string(&mut ours, &mut said).unwrap();
        said
    });
    assert!(simple().serve(server, receive).await.is_err());
    let said = talking.await.unwrap();
    assert!(said.starts_with("\u{2}could not read the assignment: missing field `context`"), "{said}");
    assert!(!path.exists());
}

#[tokio::test]
async fn a_start_that_takes_too_long_is_ended_in_order() {
    let (shim, mut told) = slow();
    let containerd = FakeContainerd::new(Daemon::V2_3).unwrap();
    let error = containerd.start_within(&shim, "c1", Duration::from_millis(200)).await.err().unwrap();
    assert_eq!(why(&error), "could not start: could not serve: the server was not ready within 200ms");
    assert_eq!(told.recv().await, Some("slow began"));
    assert_eq!(told.recv().await, Some("first ended"));
    assert_eq!(sockets(&containerd), 0);
}

#[tokio::test]
async fn an_init_that_blocks_its_thread_is_ended_when_it_lets_go() {
    let blocking = failing(|| {
        std::thread::sleep(Duration::from_millis(400));
        Ok(Provided::new(Arc::new(())))
    });
    let containerd = FakeContainerd::new(Daemon::V1_6).unwrap();
    let error = containerd.start_within(&blocking, "c1", Duration::from_millis(50)).await.err().unwrap();
    assert_eq!(why(&error), "could not start: could not serve: the server was not ready within 50ms");
    assert_eq!(sockets(&containerd), 0);
}

#[tokio::test]
async fn g05_a_server_whose_starter_dies_before_it_has_answered_ends_and_leaves_no_socket() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, path, server) = server(dir.path());
    let starting = tokio::task::spawn_blocking(move || {
        HandshakeClient::new(ours).assign(&assignment(), Duration::from_secs(10))
        // `start` dies here, before it answers containerd.
    });
    let (_signals, receive) = mpsc::channel(1);
    let error = simple().serve(server, receive).await.unwrap_err();
    assert!(matches!(error, ServeError::NotAnnounced(_)), "{error}");
    starting.await.unwrap().unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn g05_a_server_whose_starter_dies_before_it_has_said_what_to_serve_leaves_no_socket() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, path, server) = server(dir.path());
    drop(ours);
    let (_signals, receive) = mpsc::channel(1);
    let error = simple().serve(server, receive).await.unwrap_err();
    assert!(matches!(error, ServeError::Assignment(_)), "{error}");
    assert!(!path.exists());
}
