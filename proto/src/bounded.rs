//! Reading a peer's message without letting it grow in memory.
//!
//! An entry of a list that takes two bytes on the wire can take five hundred in memory. So the entries
//! of a message are counted before it is read.

use bytes::Bytes;
use protobuf::rt::{WireType, skip_field_for_tag};
use protobuf::{CodedInputStream, Message};
use thiserror::Error;

use crate::shape::{Inner, Shape};

/// Why a message was not read.
#[derive(Debug, Error)]
pub enum BoundedError {
    /// It has more entries than allowed.
    #[error("the message has more than {0} entries")]
    TooMany(usize),
    /// It is not the message that it should be.
    #[error("the message cannot be read")]
    Malformed(#[from] protobuf::Error),
}

/// Reads a message that has at most `limit` entries: fields with a length, at any depth.
///
/// # Errors
///
/// It has more, or is not the message that it should be.
///
/// ```
/// use nri_proto::{api, bounded};
///
/// let flood = bytes::Bytes::from([0x0a, 0x00].repeat(1000));
/// assert!(bounded::parse::<api::StopContainerResponse>(&flood, 1000).is_ok());
/// assert!(bounded::parse::<api::StopContainerResponse>(&flood, 999).is_err());
/// ```
pub fn parse<M: Message>(message: &Bytes, limit: usize) -> Result<M, BoundedError> {
    check::<M>(message, limit)?;
    Ok(M::parse_from_tokio_bytes(message)?)
}

/// Counts the entries of a message of this kind, if it is long enough to have too many.
///
/// # Errors
///
/// As [`parse`].
pub fn check<M: Message>(message: &Bytes, limit: usize) -> Result<(), BoundedError> {
    // Each takes two bytes at least.
    if message.len() / 2 <= limit {
        return Ok(());
    }
    let mut left = limit;
    count(Shape::of::<M>(), message, &mut left)?.then_some(()).ok_or(BoundedError::TooMany(limit))
}

/// Weighs the entries of a message of this kind: `own` for each of its own, one for each that lies deeper. Of a list of
/// large things the entries weigh more than what they contain.
///
/// # Errors
///
/// It weighs more than `limit`, or is not the message that it should be.
pub fn weigh<M: Message>(message: &Bytes, own: usize, limit: usize) -> Result<usize, BoundedError> {
    let mut left = limit;
    let is_within = count(Shape::of::<M>(), message, &mut left)? && {
        let mut input = CodedInputStream::from_tokio_bytes(message);
        let mut n_own = 0;
        while let Some(tag) = input.read_raw_tag_or_eof()? {
            skip_field_for_tag(tag, &mut input)?;
            n_own += 1;
        }
        let more = own.saturating_sub(1).saturating_mul(n_own);
        left.checked_sub(more).map(|fewer| left = fewer).is_some()
    };
    is_within.then_some(limit - left).ok_or(BoundedError::TooMany(limit))
}

/// False if there are more entries than are left. Messages of NRI do not contain themselves, so this ends.
fn count(shape: Shape, message: &Bytes, left: &mut usize) -> Result<bool, protobuf::Error> {
    let mut input = CodedInputStream::from_tokio_bytes(message);
    while let Some(tag) = input.read_raw_tag_or_eof()? {
        if tag & 7 != WireType::LengthDelimited as u32 {
            skip_field_for_tag(tag, &mut input)?;
            continue;
        }
        let entry = input.read_tokio_bytes()?;
        let Some(fewer) = left.checked_sub(1) else { return Ok(false) };
        *left = fewer;
        if let Some(Inner::Message(shape)) = shape.inner(tag >> 3)
            && !count(shape, &entry, left)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use protobuf::Message;

    use super::{BoundedError, parse, weigh};
    use crate::{api, words};

    #[test]
    fn entries_are_counted_at_any_depth() {
        let mount = api::Mount { options: vec!["ro".to_owned(); 10], ..Default::default() };
        let adjust = api::ContainerAdjustment { mounts: vec![mount; 10], ..Default::default() };
        let reply = api::CreateContainerResponse { adjust: Some(adjust).into(), ..Default::default() };
        let bytes = Bytes::from(reply.write_to_bytes().unwrap());
        assert!(matches!(parse::<api::CreateContainerResponse>(&bytes, 110), Err(BoundedError::TooMany(110))));
        assert_eq!(parse::<api::CreateContainerResponse>(&bytes, 111).unwrap(), reply);
    }

    #[test]
    fn own_entries_weigh_what_they_are_said_to() {
        let linux = api::LinuxContainerUpdate::default();
        let update =
            api::ContainerUpdate { container_id: "c".to_owned(), linux: Some(linux).into(), ..Default::default() };
        let request = api::UpdateContainersRequest { update: vec![update; 3], ..Default::default() };
        let bytes = Bytes::from(request.write_to_bytes().unwrap());
        assert_eq!(weigh::<api::UpdateContainersRequest>(&bytes, 8, 30).unwrap(), 3 * (8 + 2));
        assert!(matches!(weigh::<api::UpdateContainersRequest>(&bytes, 8, 29), Err(BoundedError::TooMany(29))));
    }

    proptest! {
        #[test]
        fn nothing_that_a_peer_sends_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse::<api::CreateContainerResponse>(&Bytes::from(bytes), 100);
        }

        #[test]
        fn what_is_read_is_what_was_sent(container in words::arbitrary::container()) {
            let message = api::Container::from(container);
            let bytes = Bytes::from(message.write_to_bytes().unwrap());
            prop_assert_eq!(parse::<api::Container>(&bytes, 1_000_000).unwrap(), message);
        }
    }
}
