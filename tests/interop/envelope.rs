//! How long the values are whose messages have a given length.

use nri_proto::call::Method;

use crate::peer::PATIENCE;

/// The length of the value with which a request of ours is a ttrpc message of `length` bytes.
///
/// What is left of the deadline when it leaves is a part of it: it has five bytes from a quarter of a second up to half a minute.
pub(crate) fn request_value(method: Method, length: usize) -> usize {
    let deadline = 1 + varint(PATIENCE.as_nanos().try_into().unwrap());
    let names = field(method.service.len()) + field(method.name.len());
    solve(length, |value| names + deadline + field(field(value)))
}

/// The same, of a request that Go makes without a deadline.
pub(crate) fn request_value_without_deadline(method: Method, length: usize) -> usize {
    let names = field(method.service.len()) + field(method.name.len());
    solve(length, |value| names + field(field(value)))
}

/// The length of the value with which a reply is a ttrpc message of `length` bytes.
pub(crate) fn reply_value(length: usize) -> usize {
    solve(length, |value| field(field(value)))
}

/// Finds what has this length.
fn solve(length: usize, length_of: impl Fn(usize) -> usize) -> usize {
    let overhead = length_of(length) - length;
    let value = (length - overhead..=length).find(|&value| length_of(value) == length);
    value.unwrap_or_else(|| panic!("no message has {length} bytes"))
}

/// The length of a field with so many bytes in it. An empty one is left out.
fn field(length: usize) -> usize {
    if length == 0 { 0 } else { 1 + varint(length) + length }
}

fn varint(number: usize) -> usize {
    number.max(1).ilog2() as usize / 7 + 1
}
