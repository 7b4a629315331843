//! Our multiplexer and Go's, with nothing on top.

use nri_proto::mux::{Channel, Closed, Limits, Mux};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use crate::envelope::frames;
use crate::peer::{CHANNELS, Go, PATIENCE, against_every_go, pattern};

against_every_go! {
    messages_of_every_size_pass_in_both_directions,
    what_nobody_reads_is_bounded_in_bytes,
}

/// The lengths of a message's body at which something changes: a Go peer's buffer has 4096 bytes
/// and a message's header ten, and no message may have more than 4 MiB.
const SIZES: [usize; 9] = [0, 1, 4085, 4086, 4096, 4097, 65536, (4 << 20) - 1, 4 << 20];

/// M12, U9.
async fn messages_of_every_size_pass_in_both_directions(go: Go) {
    let sizes = SIZES.map(|size| size.to_string());
    let args: Vec<&str> = ["echo"].into_iter().chain(sizes.iter().map(String::as_str)).collect();
    let (mut peer, socket) = go.frames(&args);
    let (mux, [mut one, two]) = Mux::on_unix(socket, CHANNELS, Limits::default()).unwrap();
    mux.admit();
    let mut reports = BufReader::new(two).lines();

    for size in SIZES {
        one.write_all(&message(size)).await.unwrap();
        let seen = reports.next_line().await.unwrap().unwrap();
        assert_eq!(seen.replace(' ', ", "), format!("{:?}", frames(size)), "the frames of {size} bytes at Go");
        assert!(receive(&mut one, size).await == message(size), "{size} bytes came back as others");
    }
    mux.close();
    assert_eq!(peer.ended().await, "");
}

/// U8, M05: Go bounds its queue in frames, 256 of up to 4 MiB each. Ours is bounded in bytes, and
/// reports why the connection ended.
async fn what_nobody_reads_is_bounded_in_bytes(go: Go) {
    let (peer, socket) = go.frames(&["flood", "100", "4194304"]);
    let (mux, [_one, mut two]) = Mux::on_unix(socket, CHANNELS, Limits::default()).unwrap();
    mux.admit();

    let reason = tokio::time::timeout(PATIENCE, mux.closed()).await.expect("the flood goes on");
    let limit = Limits::default().received;
    assert!(matches!(reason, Closed::Unread { channel: 2, limit: l } if l == limit), "{reason}");
    assert!(!peer.is_connected());

    let mut kept = Vec::new();
    let error = two.read_to_end(&mut kept).await.unwrap_err();
    assert!(kept.len() <= limit, "{} bytes were kept", kept.len());
    assert_eq!(error.to_string(), reason.to_string());
}

async fn receive(channel: &mut Channel, size: usize) -> Vec<u8> {
    let mut received = vec![0; message(size).len()];
    let reading = channel.read_exact(&mut received);
    tokio::time::timeout(PATIENCE, reading).await.expect("the message does not come").unwrap();
    received
}

/// Returns a message with a body of this many bytes, as the Go program `frames` makes it.
fn message(size: usize) -> Vec<u8> {
    let mut message = u32::try_from(size).unwrap().to_be_bytes().to_vec();
    message.extend([0, 0, 0, 1, 1, 0]);
    message.extend(pattern(size));
    message
}
