//! Fields that this version of the protocol does not know.

use std::fmt::{self, Display, Formatter};

use protobuf::{Message, UnknownFields};

/// The fields of a message that this version of the protocol does not know.
///
/// They cannot be read, but are kept: a model type that is converted back into a message has them
/// again. Unknown fields in the wrapper of a value are not kept, since the value has no place for
/// them. [`take_unknown`](TakeUnknown::take_unknown) reports both.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Unknown(Option<Box<UnknownParts>>);

/// The content of an [`Unknown`] that is not empty.
#[derive(Clone, Default, PartialEq, Eq)]
struct UnknownParts {
    fields: UnknownFields,
    wrapped: Vec<Unread>,
}

impl Unknown {
    pub(crate) fn new(fields: UnknownFields) -> Self {
        let is_empty = fields.iter().next().is_none();
        Self((!is_empty).then(|| Box::new(UnknownParts { fields, wrapped: Vec::new() })))
    }

    /// Returns whether there are no unknown fields.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the numbers of the unknown fields, in ascending order.
    pub fn numbers(&self) -> Vec<u32> {
        numbers_of(self.fields())
    }

    pub(crate) fn fields(&self) -> &UnknownFields {
        static NONE: UnknownFields = UnknownFields::new();
        self.0.as_ref().map_or(&NONE, |parts| &parts.fields)
    }

    pub(crate) fn into_fields(self) -> UnknownFields {
        self.0.map(|parts| parts.fields).unwrap_or_default()
    }

    /// Records unknown fields in the wrapper of a value.
    #[cold]
    pub(crate) fn add_wrapped(&mut self, message: &'static str, fields: &UnknownFields) {
        self.0.get_or_insert_default().wrapped.push(Unread { message, numbers: numbers_of(fields) });
    }

    /// Removes the unknown fields, and appends them to `found` as those of `message`.
    #[inline]
    pub(crate) fn take(&mut self, message: &'static str, found: &mut Vec<Unread>) {
        if let Some(parts) = self.0.take() {
            parts.tell(message, found);
        }
    }
}

impl UnknownParts {
    #[cold]
    fn tell(self, message: &'static str, found: &mut Vec<Unread>) {
        let Self { fields, wrapped } = self;
        found.extend(wrapped);
        let numbers = numbers_of(&fields);
        if !numbers.is_empty() {
            found.push(Unread { message, numbers });
        }
    }
}

fn numbers_of(fields: &UnknownFields) -> Vec<u32> {
    let mut numbers: Vec<u32> = fields.iter().map(|(number, _)| number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

impl fmt::Debug for Unknown {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        map.entries(self.fields().iter());
        let wrapped = self.0.iter().flat_map(|parts| &parts.wrapped);
        map.entries(wrapped.map(|unread| (unread.message, &unread.numbers))).finish()
    }
}

/// Unknown fields of one message that were removed from it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unread {
    /// The name of the message in the protocol.
    pub message: &'static str,
    /// The numbers of the fields.
    pub numbers: Vec<u32>,
}

impl Unread {
    /// Returns the unknown fields of a message, without those of nested messages.
    ///
    /// This is for messages that have no model type.
    ///
    /// ```
    /// use nri_proto::{Unread, api};
    ///
    /// let mut response = api::ConfigureResponse::new();
    /// assert_eq!(Unread::of(&response), None);
    /// response.special_fields.mut_unknown_fields().add_varint(99, 7);
    /// assert_eq!(Unread::of(&response).unwrap().to_string(), "ConfigureResponse 99");
    /// ```
    pub fn of<M: Message>(message: &M) -> Option<Self> {
        let numbers = numbers_of(message.special_fields().unknown_fields());
        (!numbers.is_empty()).then_some(Self { message: M::NAME, numbers })
    }
}

impl Display for Unread {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.numbers.iter().map(u32::to_string).collect();
        write!(f, "{} {}", self.message, numbers.join(", "))
    }
}

/// A model type that can contain unknown fields, itself or in its parts.
///
/// ```
/// use nri_proto::{CreateReply, TakeUnknown, api};
///
/// let mut message = api::CreateContainerResponse::new();
/// message.special_fields.mut_unknown_fields().add_varint(99, 7);
///
/// let mut reply = CreateReply::from(message);
/// assert_eq!(reply.take_unknown()[0].to_string(), "CreateContainerResponse 99");
/// assert_eq!(reply, CreateReply::default());
/// ```
pub trait TakeUnknown {
    /// Removes all unknown fields, and appends them to `found`.
    fn take_unknown_into(&mut self, found: &mut Vec<Unread>);

    /// Removes all unknown fields, and returns them.
    fn take_unknown(&mut self) -> Vec<Unread> {
        let mut found = Vec::new();
        self.take_unknown_into(&mut found);
        found
    }
}
