use std::fmt;
use std::marker::PhantomData;

/// A number of the enum `E` that this version of the protocol has no name for.
///
/// Only the wire makes them, so none of them is the number of a variant that has a name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unnamed<E> {
    number: i32,
    of: PhantomData<E>,
}

impl<E> Unnamed<E> {
    pub(crate) fn new(number: i32) -> Self {
        Self { number, of: PhantomData }
    }

    /// Returns the number.
    pub fn number(&self) -> i32 {
        self.number
    }
}

impl<E> fmt::Debug for Unnamed<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}
