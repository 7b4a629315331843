//! The frame decoder: its result does not depend on how the bytes were cut.

use nri_proto::mux::{Decoder, FramePiece, HEADER_LENGTH, header};

use super::script::Script;

const LIMIT: usize = 300;

/// Decodes the same bytes in one piece, byte by byte, and in pieces that the input determines.
pub fn frames(input: &[u8]) {
    let mut script = Script(input);
    let cuts = [script.byte(), script.byte(), script.byte()].map(|cut| usize::from(cut).max(1));
    let wire = script.0;
    let whole = decode(wire, &[wire.len().max(1)]);
    assert_eq!(whole, decode(wire, &[1]));
    assert_eq!(whole, decode(wire, &cuts));
    assert!(wire.starts_with(&whole.encoded), "encoding is the reverse of decoding");
}

#[derive(Debug, PartialEq, Eq)]
struct Decoded {
    /// The encoding of the received frames, of which the last may be incomplete.
    encoded: Vec<u8>,
    error: Option<String>,
    between_frames: bool,
}

fn decode(wire: &[u8], cuts: &[usize]) -> Decoded {
    let mut decoder = Decoder::new(LIMIT);
    let mut encoded = Vec::new();
    let mut rest = wire;
    for cut in cuts.iter().cycle() {
        let (mut input, after) = rest.split_at((*cut).min(rest.len()));
        rest = after;
        while !input.is_empty() {
            match decoder.next(&mut input) {
                Ok(Some(FramePiece::Frame { channel, length })) => {
                    assert!(length <= LIMIT);
                    let length = u32::try_from(length).expect("the limit is small");
                    encoded.extend_from_slice(&header(channel, length));
                }
                Ok(Some(FramePiece::Payload { bytes, .. })) => {
                    assert!(!bytes.is_empty());
                    encoded.extend_from_slice(bytes);
                }
                Ok(None) => assert!(input.is_empty(), "nothing was found in bytes that are left over"),
                Err(reason) => return Decoded { encoded, error: Some(reason.to_string()), between_frames: false },
            }
        }
        if rest.is_empty() {
            break;
        }
    }
    let between_frames = decoder.is_between_frames();
    if between_frames {
        assert_eq!(encoded, wire);
    } else {
        assert!(wire.len() - encoded.len() < HEADER_LENGTH, "only a part of a header may be held back");
    }
    Decoded { encoded, error: None, between_frames }
}
