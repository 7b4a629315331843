//! Decoding of frames.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::mux::tests::raw::frame;
use crate::mux::{ChannelId, Closed, Decoder, FramePiece, HEADER_LENGTH, MAX_FRAME, header};

/// Decodes `wire` in pieces of these repeating sizes. Returns each frame with its payload.
fn decode(wire: &[u8], cuts: &[usize]) -> Result<Vec<(u32, Vec<u8>)>, Closed> {
    let mut decoder = Decoder::new(MAX_FRAME);
    let mut frames = Vec::new();
    let mut rest = wire;
    for cut in cuts.iter().cycle() {
        let (mut input, after) = rest.split_at((*cut).min(rest.len()));
        rest = after;
        while !input.is_empty() {
            match decoder.next(&mut input)? {
                Some(FramePiece::Frame { channel, .. }) => frames.push((channel.get(), Vec::new())),
                Some(FramePiece::Payload { channel, bytes }) => {
                    let (number, payload) = frames.last_mut().expect("a frame begins before its payload");
                    assert_eq!(*number, channel.get());
                    payload.extend_from_slice(bytes);
                }
                None => assert!(input.is_empty(), "nothing was found in bytes that are left over"),
            }
        }
        if rest.is_empty() {
            break;
        }
    }
    assert!(decoder.is_between_frames());
    Ok(frames)
}

proptest! {
    /// M03.
    #[test]
    fn what_is_decoded_does_not_depend_on_where_the_stream_was_cut(
        frames in vec((1u32.., vec(any::<u8>(), 0..40)), 1..8),
        cuts in vec(1usize..64, 1..8),
    ) {
        let wire: Vec<u8> = frames.iter().flat_map(|(channel, payload)| frame(*channel, payload)).collect();
        prop_assert_eq!(decode(&wire, &cuts).unwrap(), frames);
    }

    #[test]
    fn a_header_is_read_as_it_was_written(number in 1u32.., length in 0..=u32::try_from(MAX_FRAME).unwrap()) {
        let wire = header(ChannelId::new(number).unwrap(), length);
        let piece = Decoder::new(MAX_FRAME).next(&mut &wire[..]).unwrap();
        prop_assert_eq!(piece, Some(FramePiece::Frame { channel: ChannelId::new(number).unwrap(), length: length as usize }));
    }
}

/// M01.
#[test]
fn a_frame_over_the_limit_is_refused_by_its_header_alone() {
    let decoded = |length: u32| {
        let wire = [&1u32.to_be_bytes()[..], &length.to_be_bytes()].concat();
        assert_eq!(wire.len(), HEADER_LENGTH);
        Decoder::new(MAX_FRAME).next(&mut &wire[..]).map(|_| ())
    };
    let most = u32::try_from(MAX_FRAME).unwrap();
    for fits in [0, 1, most] {
        assert!(decoded(fits).is_ok(), "{fits}");
    }
    for exceeds in [most + 1, 1 << 31, u32::MAX] {
        let refused = decoded(exceeds).unwrap_err();
        assert!(
            matches!(refused, Closed::FrameTooLarge { channel: 1, length, .. } if length == exceeds as usize),
            "{refused}"
        );
    }
}

/// M02.
#[test]
fn a_frame_for_the_reserved_channel_is_refused() {
    let wire = frame(0, b"x");
    assert!(matches!(Decoder::new(MAX_FRAME).next(&mut &wire[..]), Err(Closed::ReservedChannel)));
}
