use std::fmt::{self, Display, Formatter};

use protobuf::UnknownFields;

/// The fields of a message that this version of the protocol does not know.
///
/// They cannot be read, only carried along: what came in with a word goes out with it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Unknown(pub(crate) UnknownFields);

impl Unknown {
    /// Says whether there is no such field.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.iter().next().is_none()
    }

    /// Returns the numbers of the fields, in order.
    pub fn numbers(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.0.iter().map(|(number, _)| number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Takes these out of `message`.
    #[inline]
    pub(crate) fn take(&mut self, message: &'static str, found: &mut Vec<Unread>) {
        if !self.is_empty() {
            self.take_some(message, found);
        }
    }

    #[cold]
    fn take_some(&mut self, message: &'static str, found: &mut Vec<Unread>) {
        found.push(Unread { message, numbers: self.numbers() });
        *self = Self::default();
    }
}

impl fmt::Debug for Unknown {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter()).finish()
    }
}

/// Fields of one message that were taken out, since nobody knows them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unread {
    /// What the protocol calls the message.
    pub message: &'static str,
    /// The numbers of the fields.
    pub numbers: Vec<u32>,
}

impl Display for Unread {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.numbers.iter().map(u32::to_string).collect();
        write!(f, "{} {}", self.message, numbers.join(", "))
    }
}

/// What can carry fields that nobody knows, in itself or in its parts.
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
    /// Takes all of them out, and adds to `found` what they were.
    fn take_unknown_into(&mut self, found: &mut Vec<Unread>);

    /// Takes all of them out, and returns what they were.
    fn take_unknown(&mut self) -> Vec<Unread> {
        let mut found = Vec::new();
        self.take_unknown_into(&mut found);
        found
    }
}
