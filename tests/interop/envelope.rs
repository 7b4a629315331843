//! The lengths of messages, and their positions on the wire.

use nri_proto::call::Method;

use crate::peer::PATIENCE;

/// Returns the length of a request of ours that has a value of this many bytes.
///
/// The request contains the remaining time until its deadline, which takes five bytes from a
/// quarter of a second up to half a minute.
pub(crate) fn request_length(method: Method, value: usize) -> usize {
    request_length_without_deadline(method, value) + 1 + varint(PATIENCE.as_nanos().try_into().unwrap())
}

/// Returns the length of a request of Go's without a deadline, that has a value of this many bytes.
pub(crate) fn request_length_without_deadline(method: Method, value: usize) -> usize {
    field(method.service.len()) + field(method.name.len()) + field(field(value))
}

/// Returns the length of a reply that has a value of this many bytes.
pub(crate) fn reply_length(value: usize) -> usize {
    field(field(value))
}

/// Returns the length of the value with which a message has this length.
pub(crate) fn value_of(length: usize, length_with: impl Fn(usize) -> usize) -> usize {
    let overhead = length_with(length) - length;
    let value = (length - overhead..=length).find(|&value| length_with(value) == length);
    value.unwrap_or_else(|| panic!("no message has {length} bytes"))
}

/// Returns the lengths of the frames in which Go and our client send a message of this length: a
/// frame that fits Go's buffer, then the rest.
pub(crate) fn frames(length: usize) -> Vec<usize> {
    match (length + 10).checked_sub(4096) {
        None | Some(0) => vec![length + 10],
        Some(rest) => vec![4096, rest],
    }
}

/// Returns where the frames of a message of this length begin on the wire, and where the last one
/// ends.
pub(crate) fn borders(length: usize) -> Vec<usize> {
    let mut borders = vec![0];
    for frame in frames(length) {
        borders.push(borders[borders.len() - 1] + 8 + frame);
    }
    borders
}

/// Returns the positions in a message of this length at which a test lets it end: those near the
/// borders of its frames, or all of a short message.
pub(crate) fn steps(length: usize) -> Vec<usize> {
    let borders = borders(length);
    let end = borders[borders.len() - 1];
    (0..end).filter(|step| borders.iter().any(|border| step.abs_diff(*border) <= 20)).collect()
}

/// Returns the length of a field with this many bytes. An empty field is left out.
fn field(length: usize) -> usize {
    if length == 0 { 0 } else { 1 + varint(length) + length }
}

fn varint(number: usize) -> usize {
    number.max(1).ilog2() as usize / 7 + 1
}
