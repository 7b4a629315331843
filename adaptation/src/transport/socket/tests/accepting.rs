use std::os::unix::net::UnixStream;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

#[tokio::test]
async fn a_peer_is_who_the_kernel_says() {
    let (_directory, path) = place();
    let socket = Socket::bind(&path).unwrap();
    let _plugin = UnixStream::connect(&path).unwrap();
    let (_stream, peer) = socket.accept().await;
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    assert_eq!(peer, Peer { uid, gid, pid: Some(std::process::id().cast_signed()) });
}

#[test]
fn a_peer_is_allowed_by_its_user() {
    let peer = Peer { uid: 1000, gid: 0, pid: None };
    assert!(peer.is_allowed(&[0, 1000]));
    assert!(!peer.is_allowed(&[0]), "its group does not count");
    assert!(!peer.is_allowed(&[]));
}

#[tokio::test]
async fn a02_those_who_connect_and_leave_at_once_do_not_keep_others_out() {
    let (_directory, path) = place();
    let socket = Socket::bind(&path).unwrap();
    for _ in 0..1000 {
        drop(UnixStream::connect(&path).unwrap());
        let (_, peer) = socket.accept().await;
        assert!(peer.pid.is_some());
    }
    let mut plugin = tokio::net::UnixStream::connect(&path).await.unwrap();
    let (mut stream, _) = socket.accept().await;
    stream.write_all(b"hello").await.unwrap();
    let mut greeting = [0; 5];
    plugin.read_exact(&mut greeting).await.unwrap();
    assert_eq!(&greeting, b"hello");
}

#[tokio::test]
async fn giving_up_loses_no_connection() {
    let (_directory, path) = place();
    let socket = Socket::bind(&path).unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(10), socket.accept()).await.is_err());
    let _plugin = UnixStream::connect(&path).unwrap();
    socket.accept().await;
}
