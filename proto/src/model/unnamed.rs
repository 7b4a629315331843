//! Values of enums that this version of the protocol does not know.

use std::fmt;
use std::marker::PhantomData;

/// A value of the enum `E` that has no name in this version of the protocol.
///
/// Only conversions from messages create values of this type, so none has the number of a named
/// variant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unnamed<E> {
    number: i32,
    of: PhantomData<E>,
}

impl<E> Unnamed<E> {
    pub(crate) fn new(number: i32) -> Self {
        Self { number, of: PhantomData }
    }

    /// Returns the number of the value on the wire.
    pub fn number(&self) -> i32 {
        self.number
    }
}

impl<E> fmt::Debug for Unnamed<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}
