use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::sync::Barrier;
use std::thread;

use rustix::fs::FlockOperation;

use super::*;

#[tokio::test]
async fn socket_and_directory_are_for_our_own_user_alone() {
    let (directory, _) = place();
    let path = directory.path().join("a/b/nri.sock");
    let socket = Socket::bind(&path).unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(&directory.path().join("a")), 0o700);
    assert_eq!(socket.path(), path);
}

#[tokio::test]
async fn a_directory_that_is_there_stays_as_it_is() {
    let (directory, path) = place();
    for (permissions, is_safe) in [(0o700, true), (0o755, true), (0o1777, true), (0o770, false), (0o702, false)] {
        fs::set_permissions(&directory, fs::Permissions::from_mode(permissions)).unwrap();
        if is_safe {
            drop(Socket::bind(&path).unwrap());
        } else {
            let dir = directory.path().display();
            assert_eq!(refused(&path), format!("others may write to directory {dir} (mode {permissions:04o})"));
        }
        assert_eq!(mode(directory.path()), permissions);
    }
}

#[tokio::test]
async fn a_directory_of_somebody_else_is_refused() {
    let (directory, path) = place();
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: a_directory_of_somebody_else_is_refused: only root can give a directory away");
        return;
    }
    std::os::unix::fs::chown(directory.path(), Some(12345), None).unwrap();
    let dir = directory.path().display();
    assert_eq!(refused(&path), format!("directory {dir} belongs to user 12345, neither to us nor to root"));
}

#[tokio::test]
async fn a_path_that_cannot_be_is_refused_by_name() {
    let (directory, path) = place();
    fs::write(&path, "").unwrap();
    let below = path.join("nri.sock");
    assert!(refused(&below).starts_with(&format!("could not make directory {}: ", path.display())));

    let long = directory.path().join("x".repeat(200));
    assert!(refused(&long).starts_with(&format!("could not listen on {}: ", long.display())));
    assert!(refused(Path::new("")).starts_with("could not listen on : "));
    assert!(refused(directory.path()).ends_with(" is not a socket, and is not replaced"));
}

#[tokio::test]
async fn a41_a_stale_socket_is_replaced() {
    let (_directory, path) = place();
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "the standard library leaves it behind, as a runtime that is killed does");
    let _socket = Socket::bind(&path).unwrap();
    assert_eq!(mode(&path), 0o600);
    UnixStream::connect(&path).unwrap();
}

#[tokio::test]
async fn a41_a_live_socket_is_refused() {
    let (_directory, path) = place();
    let socket = Socket::bind(&path).unwrap();
    let in_use = format!("somebody already listens on {}", path.display());
    assert_eq!(refused(&path), in_use);
    UnixStream::connect(&path).unwrap();
    drop(socket);

    let _other = UnixListener::bind(&path).unwrap();
    assert_eq!(refused(&path), in_use);
    assert!(path.exists());
}

#[tokio::test]
async fn a41_a_live_socket_that_accepts_nobody_is_refused() {
    let (_directory, path) = place();
    let _socket = Socket::bind(&path).unwrap();
    let address = rustix::net::SocketAddrUnix::new(&path).unwrap();
    let connect = || {
        let waiting = bind::socket().ok()?;
        rustix::net::connect(&waiting, &address).ok().map(|()| waiting)
    };
    // Connects until the queue is full: one more connection would have to wait.
    let waiting: Vec<_> = std::iter::from_fn(connect).take(1000).collect();
    assert!(waiting.len() > 10 && waiting.len() < 1000, "{}", waiting.len());
    assert_eq!(refused(&path), format!("somebody already listens on {}", path.display()));
}

#[tokio::test]
async fn a_live_socket_of_another_type_is_refused() {
    let (_directory, path) = place();
    let datagrams = UnixDatagram::bind(&path).unwrap();
    assert_eq!(refused(&path), format!("somebody already listens on {}", path.display()));
    drop(datagrams);
    Socket::bind(&path).unwrap();
}

#[tokio::test]
async fn a41_what_is_no_socket_is_refused_and_stays() {
    let (directory, path) = place();
    let refusal = format!("{} is not a socket, and is not replaced", path.display());
    fs::write(&path, "precious").unwrap();
    assert_eq!(refused(&path), refusal);
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    fs::remove_file(&path).unwrap();

    for target in ["other.sock", "nowhere"] {
        let other = directory.path().join("other.sock");
        drop(UnixListener::bind(&other).unwrap());
        symlink(directory.path().join(target), &path).unwrap();
        assert_eq!(refused(&path), refusal);
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
        fs::remove_file(&path).unwrap();
        fs::remove_file(&other).unwrap();
    }
}

#[tokio::test]
async fn the_file_is_removed_in_the_end() {
    let (_directory, path) = place();
    drop(Socket::bind(&path).unwrap());
    assert!(!path.exists());
}

#[tokio::test]
async fn a_file_that_is_not_ours_any_more_stays() {
    let (_directory, path) = place();
    let socket = Socket::bind(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    drop(socket);
    UnixStream::connect(&path).unwrap();
}

#[tokio::test]
async fn whoever_can_read_the_directory_cannot_keep_a_runtime_from_binding() {
    let (directory, path) = place();
    let locked = fs::File::open(&directory).unwrap();
    rustix::fs::flock(&locked, FlockOperation::LockExclusive).unwrap();
    let _socket = Socket::bind(&path).unwrap();
    let names: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["nri.sock"], "the lock file is gone again");
}

#[tokio::test]
async fn a_lock_of_our_own_user_is_waited_for_with_a_limit() {
    let (_directory, path) = place();
    let held = lock::Lock::take(&path, lock::LIMIT).unwrap();
    assert_eq!(mode(&lock::path_of(&path)), 0o600);
    let error = refused(&path);
    assert!(error.starts_with(&format!("could not lock {}: it stayed locked for ", path.display())), "{error}");
    drop(held);
    Socket::bind(&path).unwrap();
}

#[tokio::test]
async fn a_lock_file_that_others_could_hold_or_that_leads_elsewhere_is_refused() {
    let (directory, path) = place();
    let lock = lock::path_of(&path);
    let refusal =
        format!("could not lock {}: {} is no lock file of ours alone: remove it", path.display(), lock.display());
    fs::write(&lock, "").unwrap();
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(refused(&path), refusal);
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(&lock, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::chown(&lock, Some(12345), None).unwrap();
        assert_eq!(refused(&path), refusal);
    }
    fs::remove_file(&lock).unwrap();

    let victim = directory.path().join("victim");
    symlink(&victim, &lock).unwrap();
    assert!(refused(&path).starts_with(&format!("could not lock {}: ", path.display())));
    assert!(!victim.exists());
    fs::remove_file(&lock).unwrap();

    // The lock file of a runtime that was killed is used again.
    fs::write(&lock, "").unwrap();
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o600)).unwrap();
    Socket::bind(&path).unwrap();
}

#[test]
fn of_several_that_bind_at_once_one_has_it() {
    let (_directory, path) = place();
    for _ in 0..50 {
        drop(UnixListener::bind(&path).unwrap());
        let starting = Barrier::new(4);
        let bound: Vec<_> = thread::scope(|scope| {
            let bind = || {
                starting.wait();
                bind::bind(path.clone(), None)
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(bind)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        UnixStream::connect(&path).unwrap();
        let others = bound.iter().filter_map(|bound| bound.as_ref().err());
        let in_use = others.filter(|error| matches!(error, BindError::InUse { .. })).count();
        assert_eq!((bound.iter().flatten().count(), in_use), (1, 3), "{bound:?}");
    }
}
