//! Go can read the frames that the cutter cuts.

use proptest::collection::vec;
use proptest::prelude::*;
use tokio::io::AsyncWriteExt;

use crate::mux::tests::raw::{admitted, connection, message};
use crate::mux::{Cutter, GO_BUFFER};

/// A model of how Go reads a channel.
///
/// Go reads whole frames, through a buffer of 4096 bytes or, if more is expected, directly into the
/// message. Reading fails if a frame does not fit.
struct GoReader<'a> {
    frames: std::slice::Iter<'a, Vec<u8>>,
    buffered: Vec<u8>,
}

impl GoReader<'_> {
    fn read(&mut self, wanted: usize) -> Result<Vec<u8>, String> {
        let mut read = Vec::new();
        while read.len() < wanted {
            let left = wanted - read.len();
            if self.buffered.is_empty() && left >= GO_BUFFER {
                read.extend(self.frame(left)?);
            } else {
                if self.buffered.is_empty() {
                    self.buffered = self.frame(GO_BUFFER)?;
                }
                let rest = self.buffered.split_off(left.min(self.buffered.len()));
                read.append(&mut std::mem::replace(&mut self.buffered, rest));
            }
        }
        Ok(read)
    }

    fn frame(&mut self, buffer: usize) -> Result<Vec<u8>, String> {
        let frame = self.frames.next().ok_or("the stream ended")?;
        if frame.len() > buffer {
            return Err(format!("cannot allocate memory: a frame of {} in a buffer of {buffer}", frame.len()));
        }
        Ok(frame.clone())
    }

    fn messages(&mut self, count: usize) -> Result<Vec<Vec<u8>>, String> {
        (0..count)
            .map(|_| {
                let header = self.read(10)?;
                let length = u32::from_be_bytes(header[..4].try_into().unwrap()) as usize;
                Ok([header, self.read(length)?].concat())
            })
            .collect()
    }
}

/// Returns the payloads of the frames of a stream that is written in pieces of these repeating
/// sizes.
fn cut(stream: &[u8], writes: &[usize]) -> Vec<Vec<u8>> {
    let mut cutter = Cutter::default();
    let mut frames = Vec::new();
    let mut rest = stream;
    for write in writes.iter().cycle() {
        let (mut chunk, after) = rest.split_at((*write).min(rest.len()));
        rest = after;
        while !chunk.is_empty() {
            let length = cutter.next(chunk);
            assert!(length > 0, "no progress");
            frames.push(chunk[..length].to_vec());
            chunk = &chunk[length..];
        }
        if rest.is_empty() {
            break;
        }
    }
    frames
}

/// Lengths around those at which the behavior of Go changes.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![0usize..20, 4070usize..4120, 8170usize..8210, 0usize..20_000]
}

proptest! {
    #[test]
    fn go_reads_every_message_however_it_was_written(
        lengths in vec(length(), 1..6),
        writes in vec(prop_oneof![1usize..12, length().prop_map(|length| length + 1)], 1..6),
    ) {
        let messages: Vec<_> = lengths.iter().map(|length| message(1, 1, &vec![7; *length])).collect();
        let frames = cut(&messages.concat(), &writes);
        let mut go = GoReader { frames: frames.iter(), buffered: Vec::new() };
        prop_assert_eq!(go.messages(messages.len()), Ok(messages));
    }
}

/// U9. The model of Go is also tested: it fails if a frame is cut wrongly.
#[test]
fn u9_a_message_is_never_one_frame_that_exceeds_gos_buffer() {
    let large = message(1, 1, &[7; 10_000]);
    let read = |frames: &[Vec<u8>]| GoReader { frames: frames.iter(), buffered: Vec::new() }.messages(1);
    assert!(read(std::slice::from_ref(&large)).unwrap_err().contains("cannot allocate memory"));
    assert_eq!(read(&cut(&large, &[usize::MAX])), Ok(vec![large]));
}

#[tokio::test]
async fn a_message_leaves_in_gos_own_two_frames() {
    for length in [0, 1, 4085, 4086, 4087, 4096, 4097, 65_536] {
        let (_mux, [mut channel, _], mut raw) = connection(1 << 20, admitted());
        let whole = message(1, 1, &vec![7; length]);
        channel.write_all(&whole).await.unwrap();
        let (number, first) = raw.read_frame().await;
        assert_eq!((number, first.len()), (1, whole.len().min(GO_BUFFER)), "{length}");
        if whole.len() > GO_BUFFER {
            assert_eq!(raw.read_frame().await.1.len(), whole.len() - GO_BUFFER, "{length}");
        }
    }
}
