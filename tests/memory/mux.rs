//! The memory that frames cost.

use std::io::ErrorKind;

use nri_proto::mux::{Channel, ChannelId, Closed, Limits, MAX_FRAME, Mux};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;

use crate::{Count, KIB, MIB, alone, header};

const ID: ChannelId = ChannelId::PLUGIN_SERVICE;

/// M01.
#[test]
fn u7_a_header_that_claims_four_gigabytes_allocates_nothing() {
    alone(async {
        for length in [MAX_FRAME as u32 + 1, 1 << 31, u32::MAX] {
            let (mut peer, ours) = UnixStream::pair().unwrap();
            let count = Count::begin();
            let (mux, _channels) = connect(ours);
            mux.admit();
            peer.write_all(&header(ID, length)).await.unwrap();
            let reason = mux.closed().await;
            assert!(matches!(reason, Closed::FrameTooLarge { .. }), "{reason}");
            assert!(count.allocated() <= 64 * KIB, "{length} claimed, {} bytes allocated", count.allocated());
        }
    });
}

/// M01: the largest allowed frame, from a peer that has not registered.
#[test]
fn u7_no_connection_costs_more_than_64_kib_before_it_is_admitted() {
    alone(async {
        let (mut peer, ours) = UnixStream::pair().unwrap();
        let count = Count::begin();
        let (mux, _channels) = connect(ours);
        peer.write_all(&header(ID, MAX_FRAME as u32)).await.unwrap();
        let reason = mux.closed().await;
        assert!(matches!(reason, Closed::BeforeAdmission { .. }), "{reason}");
        assert!(count.allocated() <= 64 * KIB, "{} bytes allocated for a claim", count.allocated());

        // Data that the peer does send is held until it is read, up to the limit.
        let (mut peer, ours) = UnixStream::pair().unwrap();
        let count = Count::begin();
        let (mux, _channels) = connect(ours);
        let limit = Limits::default().before_admission;
        let sending = async {
            loop {
                let frame = [header(ID, 1000).as_slice(), &[0; 1000]].concat();
                match peer.write_all(&frame).await {
                    Ok(()) => {}
                    Err(error) => break error,
                }
            }
        };
        let (reason, error) = tokio::join!(mux.closed(), sending);
        assert!(matches!(reason, Closed::BeforeAdmission { .. }), "{reason}");
        assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{error}");
        assert!(count.held() <= 2 * limit + 16 * KIB, "{} bytes held", count.held());
    });
}

/// M05: 400 MiB are sent; Go would keep them all.
#[test]
fn u8_what_nobody_reads_holds_at_most_8_mib() {
    alone(async {
        let (mut peer, ours) = UnixStream::pair().unwrap();
        let frame = [header(ID, 4 << 20).as_slice(), &vec![0; 4 << 20]].concat();
        let count = Count::begin();
        let (mux, channels) = connect(ours);
        mux.admit();
        let sending = async {
            for _ in 0..100 {
                if peer.write_all(&frame).await.is_err() {
                    return;
                }
            }
            panic!("400 MiB were taken");
        };
        let (reason, ()) = tokio::join!(mux.closed(), sending);
        assert!(matches!(reason, Closed::Unread { .. }), "{reason}");
        assert!(count.held() <= 8 * MIB + 64 * KIB, "{} bytes held", count.held());

        drop((mux, channels));
        assert!(count.held() <= 4 * KIB, "{} bytes held after the end", count.held());
    });
}

/// M09: an open channel with frames queued is freed when it is dropped, though the connection
/// lives.
#[test]
fn a_channel_that_is_dropped_holds_nothing() {
    alone(async {
        let (mut peer, ours) = UnixStream::pair().unwrap();
        let (mux, [dropped, mut kept]) = connect(ours);
        mux.admit();
        let frame = [header(ID, MIB as u32).as_slice(), &vec![0; MIB]].concat();
        let count = Count::begin();
        for _ in 0..4 {
            peer.write_all(&frame).await.unwrap();
        }
        until_read(&mut peer, &mut kept).await;
        assert!(count.held() >= 4 * MIB, "only {} bytes held: nothing was queued", count.held());

        drop(dropped);
        assert!(count.held() <= 4 * KIB, "{} bytes held after the drop", count.held());
        for _ in 0..16 {
            peer.write_all(&frame).await.unwrap();
        }
        until_read(&mut peer, &mut kept).await;
        assert!(count.held() <= 4 * KIB, "{} bytes held of what came after the drop", count.held());
    });
}

/// Frames for channels that nobody opened are read and dropped.
#[test]
fn frames_for_channels_that_nobody_opened_hold_nothing() {
    alone(async {
        let (mut peer, ours) = UnixStream::pair().unwrap();
        let (mux, [_one, mut two]) = connect(ours);
        mux.admit();
        let unknown = ChannelId::new(7).unwrap();
        let frame = [header(unknown, MIB as u32).as_slice(), &vec![0; MIB]].concat();
        let count = Count::begin();
        for _ in 0..64 {
            peer.write_all(&frame).await.unwrap();
        }
        until_read(&mut peer, &mut two).await;
        assert!(count.allocated() <= 4 * KIB, "{} bytes allocated", count.allocated());
    });
}

fn connect(ours: UnixStream) -> (Mux, [Channel; 2]) {
    Mux::on_unix(ours, [ID, ChannelId::RUNTIME_SERVICE], Limits::default()).unwrap()
}

/// Waits until everything that the peer has sent was received: a byte on the other channel, which
/// was sent afterwards, has arrived.
async fn until_read(peer: &mut UnixStream, other: &mut Channel) {
    let mark = [header(ChannelId::RUNTIME_SERVICE, 1).as_slice(), &[1]].concat();
    peer.write_all(&mark).await.unwrap();
    assert_eq!(tokio::io::AsyncReadExt::read_u8(other).await.unwrap(), 1);
}
