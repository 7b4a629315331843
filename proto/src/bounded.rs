//! Reading a peer's message without letting it grow in memory.
//!
//! An entry of a list that takes two bytes on the wire can take five hundred in memory. So the entries
//! of a message are counted before it is read: its fields, at any depth, each as often as it is there. That a field is a number makes no
//! difference: one that nobody knows is kept, too. Of numbers that are packed some count as one.
//!
//! A message that ends within a part of it is refused. The library would take it for one that ends there.

use std::marker::PhantomData;

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
    /// A message in it of which there can be one is there twice. What is said first would be lost, and no encoder does that.
    #[error("the message has a part twice of which there can be one")]
    Twice,
}

/// Packed numbers that take about as much as an entry.
const NUMBERS: usize = 16;

/// Reads a message that has at most `limit` entries.
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
    Checked::new(message, limit).parse()
}

/// A message of this kind that has no more entries than allowed.
#[derive(Debug)]
pub struct Checked<'m, M> {
    message: &'m Bytes,
    limit: usize,
    /// Its length may have been enough to know.
    is_counted: bool,
    kind: PhantomData<M>,
}

impl<'m, M: Message> Checked<'m, M> {
    fn new(message: &'m Bytes, limit: usize) -> Self {
        Self { message, limit, is_counted: false, kind: PhantomData }
    }

    fn count(self) -> Result<Self, BoundedError> {
        let mut left = self.limit;
        if !self.is_counted && !count(Shape::of::<M>(), self.message, &mut left)? {
            return Err(BoundedError::TooMany(self.limit));
        }
        Ok(Self { is_counted: true, ..self })
    }

    /// Reads it.
    ///
    /// # Errors
    ///
    /// It is not the message that it should be.
    pub fn parse(self) -> Result<M, BoundedError> {
        // Counting is also how one finds out whether it is whole.
        Ok(M::parse_from_tokio_bytes(self.count()?.message)?)
    }
}

/// Counts the entries of a message of this kind, if it is long enough to have too many. Whoever reads it in another way
/// than by [`Checked::parse`] must look himself whether it is whole.
///
/// # Errors
///
/// As [`parse`].
pub fn check<M: Message>(message: &Bytes, limit: usize) -> Result<Checked<'_, M>, BoundedError> {
    let checked = Checked::new(message, limit);
    // Each takes two bytes at least, and packed numbers that are one take more.
    if message.len() / 2 <= limit { Ok(checked) } else { checked.count() }
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
        take(&mut left, more)
    };
    is_within.then_some(limit - left).ok_or(BoundedError::TooMany(limit))
}

/// False if there are more entries than are left. Messages of NRI do not contain themselves, so this ends.
fn count(shape: Shape, message: &Bytes, left: &mut usize) -> Result<bool, BoundedError> {
    let mut there = 0_u64;
    count_fields(message, left, |number, entry, left| match shape.inner(number) {
        Some(Inner::Message(shape)) => {
            let bit = 1_u64.checked_shl(number).unwrap_or(0);
            if there & bit != 0 {
                return Err(BoundedError::Twice);
            }
            there |= bit;
            count(shape, entry, left)
        }
        Some(Inner::Messages(shape)) => count(shape, entry, left),
        Some(Inner::Map(value)) => count_map_entry(value, entry, left),
        Some(Inner::Numbers) => Ok(take(left, entry.len() / NUMBERS)),
        None => Ok(true),
    })
}

/// An entry of a map has counted; what its value holds counts, too. Nothing else in it is kept.
fn count_map_entry(value: Option<Shape>, entry: &Bytes, left: &mut usize) -> Result<bool, BoundedError> {
    const VALUE: u32 = 2;
    let mut any = usize::MAX;
    count_fields(entry, &mut any, |number, entry, _| match value {
        Some(value) if number == VALUE => count(value, entry, left),
        Some(_) | None => Ok(true),
    })
}

/// Counts the fields of a message, and lets `within` count what is in those that have a length.
fn count_fields(
    message: &Bytes,
    left: &mut usize,
    mut within: impl FnMut(u32, &Bytes, &mut usize) -> Result<bool, BoundedError>,
) -> Result<bool, BoundedError> {
    let mut input = CodedInputStream::from_tokio_bytes(message);
    while let Some(tag) = input.read_raw_tag_or_eof()? {
        if !take(left, 1) {
            return Ok(false);
        }
        if tag & 7 != WireType::LengthDelimited as u32 {
            skip_field_for_tag(tag, &mut input)?;
        } else if !within(tag >> 3, &input.read_tokio_bytes()?, left)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// False if so many are not left.
fn take(left: &mut usize, count: usize) -> bool {
    left.checked_sub(count).map(|fewer| *left = fewer).is_some()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use protobuf::Message;

    use super::{BoundedError, check, parse, weigh};
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
    fn what_was_checked_is_read_whether_it_was_counted_or_is_short_enough() {
        let update = api::ContainerUpdate { container_id: "c".repeat(100), ..Default::default() };
        let reply = api::StopContainerResponse { update: vec![update], ..Default::default() };
        let bytes = Bytes::from(reply.write_to_bytes().unwrap());
        let check = check::<api::StopContainerResponse>;
        assert!(matches!(check(&bytes, 1), Err(BoundedError::TooMany(1))));
        for limit in [2, 1000] {
            assert_eq!(check(&bytes, limit).unwrap().parse().unwrap(), reply);
        }
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

    /// More entries than this in a message of this kind?
    fn is_too_much(bytes: Vec<u8>, limit: usize) -> bool {
        matches!(parse::<api::CreateContainerResponse>(&bytes.into(), limit), Err(BoundedError::TooMany(_)))
    }

    #[test]
    fn numbers_that_nobody_knows_are_entries() {
        let mut reply = api::CreateContainerResponse::new();
        (100..200).for_each(|number| reply.special_fields.mut_unknown_fields().add_varint(number, 0));
        let bytes = reply.write_to_bytes().unwrap();
        assert!(is_too_much(bytes.clone(), 99) && !is_too_much(bytes, 100));
    }

    #[test]
    fn what_is_in_the_values_of_a_map_is_counted() {
        let mut device = api::LinuxNetDevice::new();
        (100..200).for_each(|number| device.special_fields.mut_unknown_fields().add_varint(number, 0));
        let net_devices = [("eth0".to_owned(), device)].into();
        let linux = api::LinuxContainerAdjustment { net_devices, ..Default::default() };
        let adjust = api::ContainerAdjustment { linux: Some(linux).into(), ..Default::default() };
        let reply = api::CreateContainerResponse { adjust: Some(adjust).into(), ..Default::default() };
        // The adjustment, its part for Linux, the entry, and what is in its value.
        let bytes = reply.write_to_bytes().unwrap();
        assert!(is_too_much(bytes.clone(), 102) && !is_too_much(bytes, 103));
    }

    #[test]
    fn many_packed_numbers_are_some_entries() {
        // adjust.linux.scheduler.flags, packed: a number takes a byte.
        let fields = [1_u8, 6, 10, 4];
        let packed = fields.iter().rev().fold(vec![0; 1600], |inner, number| {
            let length = u16::try_from(inner.len()).unwrap();
            let length = [(length & 0x7f) as u8 | 0x80, (length >> 7) as u8];
            [&[number << 3 | 2][..], &length, &inner].concat()
        });
        let flags = |bytes: &[u8]| {
            let reply = api::CreateContainerResponse::parse_from_bytes(bytes).unwrap();
            reply.adjust.linux.scheduler.flags.len()
        };
        assert_eq!(flags(&packed), 1600);
        assert!(is_too_much(packed.clone(), 103) && !is_too_much(packed, 104));
    }

    /// The library takes what ends within a part of it for what ends there.
    #[test]
    fn a_message_that_is_cut_off_anywhere_but_behind_a_part_is_refused() {
        let mut annotations = api::ContainerAdjustment::new();
        annotations.annotations.insert("key".to_owned(), "value".to_owned());
        let update = api::ContainerUpdate { container_id: "c2".to_owned(), ..Default::default() };
        let reply = api::CreateContainerResponse { update: vec![update], ..Default::default() };
        let whole = api::CreateContainerResponse { adjust: Some(annotations).into(), ..reply };
        let bytes = whole.write_to_bytes().unwrap();
        let is_read = |end: &usize| parse::<api::CreateContainerResponse>(&bytes[..*end].to_vec().into(), 100).is_ok();
        // Nothing, the adjustment alone, and all of it.
        let adjustment = 2 + usize::from(bytes[1]);
        assert_eq!((0..=bytes.len()).filter(is_read).collect::<Vec<_>>(), [0, adjustment, bytes.len()]);
    }

    /// Go cuts it.
    #[test]
    fn a_number_that_its_field_has_no_room_for_is_refused() {
        // adjust.linux.io_priority.priority, of 32 bits.
        let too_large = [0x0a, 0x0c, 0x32, 0x0a, 0x2a, 0x08, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        let read = parse::<api::CreateContainerResponse>(&too_large.to_vec().into(), 100);
        assert!(matches!(read, Err(BoundedError::Malformed(_))), "{read:?}");
    }

    /// The library would forget the first.
    #[test]
    fn a_part_of_which_there_can_be_one_is_not_read_twice() {
        let adjusting = |key: &str| {
            let mut adjust = api::ContainerAdjustment::new();
            adjust.annotations.insert(key.to_owned(), "1".to_owned());
            let reply = api::CreateContainerResponse { adjust: Some(adjust).into(), ..Default::default() };
            reply.write_to_bytes().unwrap()
        };
        let twice = Bytes::from([adjusting("a"), adjusting("b")].concat());
        assert!(matches!(parse::<api::CreateContainerResponse>(&twice, 100), Err(BoundedError::Twice)));
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
