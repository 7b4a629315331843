//! Tests of socket files: their names, their locks, and their removal.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use super::*;
use crate::runner::socket::BindOutcome;
use crate::runner::socket_lock::{self, SocketLock};
use crate::testing::{Bundle, Daemon, FakeContainerd};

fn sockets(containerd: &FakeContainerd) -> usize {
    fs::read_dir(containerd.socket_dir()).map_or(0, Iterator::count)
}

#[test]
fn a_socket_whose_path_is_too_long_or_whose_directory_is_everyones_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let long = dir.path().join("x".repeat(100));
    assert!(matches!(socket::bind(&long), Err(SocketError::TooLong { .. })));
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(socket::bind(&dir.path().join("s")), Err(SocketError::UnsafeDirectory { .. })));
}

#[test]
fn sockets_are_named_as_in_go_and_no_group_is_named_as_the_debug_socket_of_another() {
    let dir = Path::new("/run/containerd/s");
    let (address, namespace) = ("/run/containerd/containerd.sock", "k8s.io");
    let path = |group| socket_path::path(dir, address, namespace, group);
    let debug = |group| socket_path::debug_path(dir, address, namespace, group);
    // Computed with sha256sum.
    let go = |name: &str| dir.join(name);
    assert_eq!(path("pod1"), go("8e264b1ad347c80aee5f3dea6e4bb53d72026989222058782273d5db043c7723"));
    assert_eq!(debug("pod1"), go("ddbdfb7af5ceff24b0d2ddc30aff7f5124fd781c8851437485f62039b920b4e2"));

    let groups = ["pod1", "pod1/debug", "pod1/debug/debug", "/debug", "", "debug", "\0debug\0pod1", "\0/debug"];
    let names: BTreeSet<_> = groups.iter().flat_map(|group| [path(group), debug(group)]).collect();
    assert_eq!(names.len(), 2 * groups.len(), "two of them have one name");
    // A group name that reaches into another namespace also gets a name of its own.
    assert_ne!(path("../other/pod1"), socket_path::path(dir, address, "other", "pod1"));
    assert_ne!(socket_path::path(dir, address, "a", "b/c"), socket_path::path(dir, address, "a/b", "c"));
}

#[tokio::test]
async fn a_pod_cannot_take_the_debug_socket_of_another_for_the_shim_of_its_group() {
    let containerd = FakeContainerd::new(Daemon::V2_3).unwrap();
    let shim = simple();
    let debugging = Bundle { debug: true, ..Bundle::default() };
    let first = containerd.start_with(&shim, "c1", &debugging).await.unwrap();
    let _: api::ConnectResponse = first.task("Connect", &api::ConnectRequest::new()).await.unwrap();
    while sockets(&containerd) < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for annotation in ["io.containerd.runc.v2.group", "io.kubernetes.cri.sandbox-id"] {
        let annotations = BTreeMap::from([(annotation.to_owned(), "c1/debug".to_owned())]);
        let evil = Bundle { annotations, ..Bundle::default() };
        let second = containerd.start_with(&shim, "c2", &evil).await.unwrap();
        assert_eq!(sockets(&containerd), 3, "it has one of its own");
        let request = api::ConnectRequest { id: "c2".to_owned(), ..Default::default() };
        let connected: api::ConnectResponse = second.task("Connect", &request).await.unwrap();
        assert_eq!(connected.version, "c2");
        second.kill().await;
        containerd.delete(&shim, "c2").await.unwrap();
        assert_eq!(sockets(&containerd), 2, "and `delete` finds it");
    }
    first.terminate().await.unwrap();
    assert_eq!(sockets(&containerd), 0);
}

#[test]
fn the_file_of_a_socket_goes_only_while_nobody_else_is_about_to_make_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let BindOutcome::New(file, _listener) = socket::bind(&path).unwrap() else { panic!("it is new") };
    let other = SocketLock::take(&path, socket_lock::LIMIT).unwrap();
    let going = std::thread::spawn(move || drop(file));
    std::thread::sleep(Duration::from_millis(50));
    assert!(path.exists());
    drop(other);
    going.join().unwrap();
    assert!(!path.exists());
}

#[test]
fn whoever_can_read_the_directory_of_the_sockets_holds_up_no_shim() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let attacker = fs::File::open(dir.path()).unwrap();
    rustix::fs::flock(&attacker, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let BindOutcome::New(file, listener) = socket::bind(&path).unwrap() else { panic!("it is new") };
    drop((file, listener));
    let BindOutcome::New(file, listener) = socket::bind(&path).unwrap() else { panic!("it is new") };
    file.leave();
    drop(listener);
    socket::remove_stale(&path).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "no lock file stays behind");
    // The lock file of a process that was killed is removed, too.
    fs::write(socket_lock::path_of(&path), "").unwrap();
    fs::set_permissions(socket_lock::path_of(&path), fs::Permissions::from_mode(0o600)).unwrap();
    socket::remove_stale(&path).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn nobody_waits_for_ever_for_the_lock_of_a_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let BindOutcome::New(file, listener) = socket::bind(&path).unwrap() else { panic!("it is new") };
    let held = SocketLock::take(&path, socket_lock::LIMIT).unwrap();
    assert_eq!(fs::metadata(socket_lock::path_of(&path)).unwrap().permissions().mode() & 0o7777, 0o600);
    // In parallel, because each attempt takes its whole limit.
    std::thread::scope(|scope| {
        let binding = scope.spawn(|| socket::bind(&path).err().unwrap());
        let removing = scope.spawn(|| socket::remove_stale(&path).unwrap_err());
        scope.spawn(|| drop(file));
        for error in [binding.join().unwrap(), removing.join().unwrap()] {
            let expected = format!("could not lock {}: still locked after 2s", path.display());
            assert_eq!(why(&error), expected);
        }
    });
    assert!(path.exists());
    drop((held, listener));
    socket::remove_stale(&path).unwrap();
    assert!(!path.exists());
}

#[test]
fn a_lock_file_that_others_could_hold_or_that_is_a_link_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let (path, victim) = (dir.path().join("s"), dir.path().join("victim"));
    let lock_file = socket_lock::path_of(&path);
    fs::write(&lock_file, "").unwrap();
    fs::set_permissions(&lock_file, fs::Permissions::from_mode(0o644)).unwrap();
    let error = SocketLock::take(&path, socket_lock::LIMIT).unwrap_err();
    assert_eq!(error.to_string(), format!("lock file {} is accessible to other users: remove it", lock_file.display()));
    fs::remove_file(&lock_file).unwrap();
    symlink(&victim, &lock_file).unwrap();
    SocketLock::take(&path, socket_lock::LIMIT).unwrap_err();
    assert!(!victim.exists());
}

#[test]
fn only_a_socket_is_removed_to_make_room_for_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    fs::write(&path, "precious").unwrap();
    for refusal in [socket::bind(&path).err().unwrap(), socket::remove_stale(&path).unwrap_err()] {
        assert_eq!(refusal.to_string(), format!("{} is not a socket and will not be removed", path.display()));
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    // A link to a socket is not removed either.
    let (other, link) = (dir.path().join("other"), dir.path().join("link"));
    drop(UnixListener::bind(&other).unwrap());
    symlink(&other, &link).unwrap();
    socket::remove_stale(&link).unwrap_err();
    assert!(other.exists() && fs::symlink_metadata(&link).is_ok());
}

#[tokio::test]
async fn delete_removes_only_sockets_and_only_below_the_directory_of_the_sockets() {
    let containerd = FakeContainerd::new(Daemon::V2_3).unwrap();
    let shim = simple();
    let elsewhere = tempfile::tempdir().unwrap();
    let running = containerd.start(&shim, "c1").await.unwrap();
    let own = socket_path::path_of(&running.address).unwrap();
    running.kill().await;
    let hash = "0123456789abcdef".repeat(4);
    let file = elsewhere.path().join("file");
    let [stale, hashed, above] = ["stale.sock", &hash, "above"].map(|name| elsewhere.path().join(name));
    fs::write(&file, "precious").unwrap();
    for victim in [&stale, &hashed, &above] {
        // Nobody listens, and the file stays.
        drop(UnixListener::bind(victim).unwrap());
    }
    let dots = containerd.socket_dir().join("..").join("..").join(elsewhere.path().file_name().unwrap()).join("above");
    assert!(dots.exists());
    for victim in [&file, &stale, &hashed, &dots] {
        fs::write(containerd.bundle("c1").join("address"), format!("unix://{}", victim.display())).unwrap();
        containerd.delete(&shim, "c1").await.unwrap();
        assert!(victim.exists(), "{}", victim.display());
    }
    assert!(!own.exists(), "what start would name it is removed all the same");

    // A file that is not a socket stays, and `delete` reports that.
    let inside = containerd.socket_dir().join(&hash);
    fs::write(&inside, "precious").unwrap();
    fs::write(containerd.bundle("c1").join("address"), format!("unix://{}", inside.display())).unwrap();
    let error = containerd.delete(&shim, "c1").await.unwrap_err();
    assert!(why(&error).ends_with(" is not a socket and will not be removed"), "{}", why(&error));
    assert_eq!(fs::read_to_string(&inside).unwrap(), "precious");
}

#[tokio::test]
async fn delete_finds_the_socket_in_a_directory_that_only_start_was_told() {
    let containerd = FakeContainerd::new(Daemon::V2_3).unwrap();
    let shim = simple();
    let running = containerd.start(&shim, "c1").await.unwrap();
    let own = socket_path::path_of(&running.address).unwrap();
    running.kill().await;
    // As if the operator had configured a socket directory that `delete` does not know.
    let other = tempfile::tempdir().unwrap();
    let moved = other.path().join(own.file_name().unwrap());
    fs::rename(&own, &moved).unwrap();
    fs::write(containerd.bundle("c1").join("address"), socket_path::address(&moved)).unwrap();
    containerd.delete(&shim, "c1").await.unwrap();
    assert!(!moved.exists());
}
