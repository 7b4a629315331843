//! Sockets in a process that is not as it should be. What these tests change holds for the whole process, so they have
//! one of their own, and take turns.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nri_adaptation::socket::Socket;
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit};

#[test]
fn a42_without_file_descriptors_nobody_is_let_in_until_there_are_some() {
    in_turn(async {
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
    in_turn(async {
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

/// Runs a test when no other one does. Its runtime is made then too: it needs file descriptors.
fn in_turn(test: impl Future<Output = ()>) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made").block_on(test);
}
