//! Reading a peer's message without letting it grow in memory.
//!
//! An entry of a list that takes two bytes on the wire can take five hundred in memory. So the entries
//! of a message are counted before it is read: its fields, at any depth, each as often as it is there. That a field is a number makes no
//! difference: one that nobody knows is kept, too. Of numbers that are packed some count as one.
//!
//! A group in a message, a field without a length, is skipped: NRI has none. In what a plugin wants it becomes a field that
//! nobody knows, so that it is told of as others are.
//!
//! A message that ends within a part of it is refused. The library would take it for one that ends there.

mod groups;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use bytes::Bytes;
use protobuf::rt::{WireType, skip_field_for_tag};
use protobuf::{CodedInputStream, Message};
use thiserror::Error;

use crate::schema::shape::{FieldShape, Shape};

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
/// The number of the value in an entry of a map.
const VALUE: u32 = 2;

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
    CheckedMessage::new(message, limit).parse()
}

/// The same for what a plugin wants, of which nothing is dropped without a word.
///
/// # Errors
///
/// As [`parse`].
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

/// A message of this kind that has no more entries than allowed.
#[derive(Debug)]
pub struct CheckedMessage<'m, M> {
    message: &'m Bytes,
    limit: usize,
    /// None if its length was enough to know.
    budget: Option<EntryBudget>,
    kind: PhantomData<M>,
}

/// What was found in a message while it was counted.
#[derive(Clone, Copy, Debug)]
struct EntryBudget {
    /// How many more entries it may have.
    left: usize,
    has_groups: bool,
}

impl<'m, M: Message> CheckedMessage<'m, M> {
    fn new(message: &'m Bytes, limit: usize) -> Self {
        Self { message, limit, budget: None, kind: PhantomData }
    }

    /// Counts it, unless that was done.
    fn count(&mut self) -> Result<EntryBudget, BoundedError> {
        if let Some(budget) = self.budget {
            return Ok(budget);
        }
        let mut budget = EntryBudget::new(self.limit);
        let is_within = count(const { Shape::of::<M>() }, self.message, &mut budget)?;
        is_within.then(|| *self.budget.insert(budget)).ok_or(BoundedError::TooMany(self.limit))
    }

    /// Reads it.
    ///
    /// # Errors
    ///
    /// It is not the message that it should be.
    pub fn parse(mut self) -> Result<M, BoundedError> {
        // Counting is also how one finds out whether it is whole.
        self.count()?;
        Ok(M::parse_from_tokio_bytes(self.message)?)
    }

    /// Reads it as [`parse_wanted`] does.
    ///
    /// # Errors
    ///
    /// It is not the message that it should be.
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

    /// False if so many are not left.
    fn take(&mut self, count: usize) -> bool {
        self.left.checked_sub(count).map(|fewer| self.left = fewer).is_some()
    }
}

/// Counts the entries of a message of this kind, if it is long enough to have too many. Whoever reads it in another way
/// than by [`CheckedMessage::parse`] must look himself whether it is whole.
///
/// # Errors
///
/// As [`parse`].
pub fn check<M: Message>(message: &Bytes, limit: usize) -> Result<CheckedMessage<'_, M>, BoundedError> {
    let mut checked = CheckedMessage::new(message, limit);
    // Each takes two bytes at least, and packed numbers that are one take more.
    if message.len() / 2 > limit {
        checked.count()?;
    }
    Ok(checked)
}

/// Weighs the entries of a message of this kind: `own` for each of its own, one for each that lies deeper. Of a list of
/// large things the entries weigh more than what they contain. Returns the weight, and the message.
///
/// # Errors
///
/// It weighs more than `limit`, or is not the message that it should be.
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

/// False if there are more entries than are left. Messages of NRI do not contain themselves, so this ends.
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

/// An entry of a map has counted; what its value holds counts, too. Nothing else in it is kept.
fn count_map_entry(value: Option<Shape>, entry: &Bytes, budget: &mut EntryBudget) -> Result<bool, BoundedError> {
    let mut any = EntryBudget::new(usize::MAX);
    count_fields(entry, &mut any, |number, entry, _| match value {
        Some(value) if number == VALUE => count(value, entry, budget),
        Some(_) | None => Ok(true),
    })
}

/// Counts the fields of a message, and lets `within` count what is in those that have a length.
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
