//! Decoding of a peer's messages with a bound on the memory that they take.
//!
//! An entry of a list that takes two bytes on the wire can take five hundred in memory. The entries
//! of a message are therefore counted before it is decoded. Each occurrence of a field counts, at
//! any depth. Numbers count, too, because an unknown field is kept whatever its type. Several
//! packed numbers count as one entry.
//!
//! Groups, which are fields without a length, are skipped: NRI has none. In the reply or request of
//! a plugin ([`parse_wanted`]) a group becomes an unknown field, so that it is reported like
//! others.
//!
//! A message that ends in the middle of a field is refused. The protobuf library would accept it as
//! complete.
//!
//! `groups.rs` replaces groups by unknown fields.

mod groups;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use bytes::Bytes;
use protobuf::rt::{WireType, skip_field_for_tag};
use protobuf::{CodedInputStream, Message};
use thiserror::Error;

use crate::schema::shape::{FieldShape, Shape};

/// The reason why a message was not decoded.
#[derive(Debug, Error)]
pub enum BoundedError {
    /// The message has more entries than allowed.
    #[error("the message has more than {0} entries")]
    TooMany(usize),
    /// The message is not valid protobuf.
    #[error("the message cannot be read")]
    Malformed(#[from] protobuf::Error),
    /// A field that can occur once, and contains a message, occurs twice. Decoding would merge or
    /// lose the first one, and no encoder writes this.
    #[error("the message has a part twice of which there can be one")]
    Twice,
}

/// The number of packed numbers that take about as much memory as an entry.
const NUMBERS: usize = 16;
/// The field number of the value in an entry of a map.
const VALUE: u32 = 2;

/// Decodes a message that has at most `limit` entries.
///
/// # Errors
///
/// Fails if the message has more entries, or is invalid.
///
/// ```
/// use nri_proto::{api, bounded};
///
/// let flood = bytes::Bytes::from([0x0a, 0x00].repeat(1000));
/// assert!(bounded::parse::<api::StopContainerResponse>(&flood, 1000).is_ok());
/// assert!(bounded::parse::<api::StopContainerResponse>(&flood, 999).is_err());
/// ```
pub fn parse<M: Message>(message: &Bytes, limit: usize) -> Result<M, BoundedError> {
    CheckedMessage::new(message, limit).parse()
}

/// Like [`parse`], but turns groups into unknown fields, which [`parse`] drops.
///
/// Use this for the replies and requests of plugins: a part of them that is ignored must be
/// reported.
///
/// # Errors
///
/// Fails if the message has more than `limit` entries, or is invalid.
///
/// ```
/// use nri_proto::{StopReply, TakeUnknown, api, bounded};
///
/// let group = bytes::Bytes::from_static(&[0x7b, 0x7c]);
/// let reply: api::StopContainerResponse = bounded::parse_wanted(&group, 10)?;
/// assert_eq!(StopReply::from(reply).take_unknown()[0].to_string(), "StopContainerResponse 15");
/// # Ok::<(), bounded::BoundedError>(())
/// ```
pub fn parse_wanted<M: Message>(message: &Bytes, limit: usize) -> Result<M, BoundedError> {
    CheckedMessage::new(message, limit).parse_wanted()
}

/// An encoded message of the type `M` that has no more entries than allowed.
#[derive(Debug)]
pub struct CheckedMessage<'m, M> {
    message: &'m Bytes,
    limit: usize,
    /// The result of counting, or `None` if the message is too short to have too many entries.
    budget: Option<EntryBudget>,
    kind: PhantomData<M>,
}

/// The result of counting the entries of a message.
#[derive(Clone, Copy, Debug)]
struct EntryBudget {
    /// The number of entries that are still allowed.
    left: usize,
    has_groups: bool,
}

impl<'m, M: Message> CheckedMessage<'m, M> {
    fn new(message: &'m Bytes, limit: usize) -> Self {
        Self { message, limit, budget: None, kind: PhantomData }
    }

    /// Counts the entries, unless they have been counted.
    fn count(&mut self) -> Result<EntryBudget, BoundedError> {
        if let Some(budget) = self.budget {
            return Ok(budget);
        }
        let mut budget = EntryBudget::new(self.limit);
        let is_within = count(const { Shape::of::<M>() }, self.message, &mut budget)?;
        is_within.then(|| *self.budget.insert(budget)).ok_or(BoundedError::TooMany(self.limit))
    }

    /// Decodes the message.
    ///
    /// # Errors
    ///
    /// Fails if the message is invalid.
    pub fn parse(mut self) -> Result<M, BoundedError> {
        // Counting also detects a message that is cut off.
        self.count()?;
        Ok(M::parse_from_tokio_bytes(self.message)?)
    }

    /// Decodes the message as [`parse_wanted`] does.
    ///
    /// # Errors
    ///
    /// Fails if the message is invalid.
    pub fn parse_wanted(mut self) -> Result<M, BoundedError> {
        if !self.count()?.has_groups {
            return self.parse();
        }
        Ok(M::parse_from_bytes(&groups::marked(const { Shape::of::<M>() }, self.message)?)?)
    }
}

impl EntryBudget {
    fn new(left: usize) -> Self {
        Self { left, has_groups: false }
    }

    /// Takes `count` entries. Returns false if fewer are left.
    fn take(&mut self, count: usize) -> bool {
        self.left.checked_sub(count).map(|fewer| self.left = fewer).is_some()
    }
}

/// Counts the entries of a message of the type `M`, if it is long enough to have too many.
///
/// A short message is not counted. Code that decodes it by other means than
/// [`CheckedMessage::parse`] must detect a message that is cut off.
///
/// # Errors
///
/// Fails if the message has more than `limit` entries, or is invalid.
pub fn check<M: Message>(message: &Bytes, limit: usize) -> Result<CheckedMessage<'_, M>, BoundedError> {
    let mut checked = CheckedMessage::new(message, limit);
    // An entry takes at least two bytes, and packed numbers that count as one entry take more.
    if message.len() / 2 > limit {
        checked.count()?;
    }
    Ok(checked)
}

/// Counts the entries of a message of the type `M`, with a weight for those at the top level.
///
/// Each entry of the message itself counts `own` times, and each deeper entry once. This is for
/// lists whose entries take more memory than their content. Returns the total and the message.
///
/// # Errors
///
/// Fails if the total exceeds `limit`, or if the message is invalid.
pub fn weigh<M: Message>(
    message: &Bytes,
    own: usize,
    limit: usize,
) -> Result<(usize, CheckedMessage<'_, M>), BoundedError> {
    let mut checked = CheckedMessage::new(message, limit);
    let mut budget = checked.count()?;
    let mut input = CodedInputStream::from_tokio_bytes(message);
    let mut n_own = 0;
    while let Some(tag) = input.read_raw_tag_or_eof()? {
        skip_field_for_tag(tag, &mut input)?;
        n_own += 1;
    }
    let more = own.saturating_sub(1).saturating_mul(n_own);
    if budget.take(more) { Ok((limit - budget.left, checked)) } else { Err(BoundedError::TooMany(limit)) }
}

/// Counts the entries of a message. Returns false if there are more than are left.
///
/// The recursion ends, because no message of NRI contains itself.
fn count(shape: Shape, message: &Bytes, budget: &mut EntryBudget) -> Result<bool, BoundedError> {
    let mut there = 0_u64;
    count_fields(message, budget, |number, entry, budget| match shape.field(number) {
        Some(FieldShape::Message(shape)) => {
            let bit = 1_u64.checked_shl(number).unwrap_or(0);
            if there & bit != 0 {
                return Err(BoundedError::Twice);
            }
            there |= bit;
            count(shape, entry, budget)
        }
        Some(FieldShape::Messages(shape)) => count(shape, entry, budget),
        Some(FieldShape::Map(value)) => count_map_entry(value, entry, budget),
        Some(FieldShape::Numbers) => Ok(budget.take(entry.len() / NUMBERS)),
        None => Ok(true),
    })
}

/// Counts the content of the value in an entry of a map.
///
/// The entry itself has already been counted, and decoding keeps nothing else of it.
fn count_map_entry(value: Option<Shape>, entry: &Bytes, budget: &mut EntryBudget) -> Result<bool, BoundedError> {
    let mut any = EntryBudget::new(usize::MAX);
    count_fields(entry, &mut any, |number, entry, _| match value {
        Some(value) if number == VALUE => count(value, entry, budget),
        Some(_) | None => Ok(true),
    })
}

/// Counts the fields of a message. `within` counts the content of length-delimited fields.
fn count_fields(
    message: &Bytes,
    budget: &mut EntryBudget,
    mut within: impl FnMut(u32, &Bytes, &mut EntryBudget) -> Result<bool, BoundedError>,
) -> Result<bool, BoundedError> {
    let mut input = CodedInputStream::from_tokio_bytes(message);
    while let Some(tag) = input.read_raw_tag_or_eof()? {
        if !budget.take(1) {
            return Ok(false);
        }
        if tag & 7 != WireType::LengthDelimited as u32 {
            budget.has_groups |= tag & 7 == WireType::StartGroup as u32;
            skip_field_for_tag(tag, &mut input)?;
        } else if !within(tag >> 3, &input.read_tokio_bytes()?, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}
