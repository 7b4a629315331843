use crate::text::quote::quoted;

/// One entry of an [`Adjustment`](super::Adjustment): what becomes of a key.
///
/// ```
/// use nri_proto::Change;
///
/// assert_eq!(Change::Replace("1").value(), Some(&"1"));
/// assert_eq!(Change::<&str>::Remove.value(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change<T> {
    /// It gets this value. That is a conflict if another plugin gave it one.
    Set(T),
    /// What it was goes, also if another plugin set it, and it gets this value.
    Replace(T),
    /// What it was goes, also if another plugin set it.
    Remove,
}

impl<T> Change<T> {
    /// Borrows the value.
    pub fn as_ref(&self) -> Change<&T> {
        match self {
            Self::Set(value) => Change::Set(value),
            Self::Replace(value) => Change::Replace(value),
            Self::Remove => Change::Remove,
        }
    }

    /// Returns the value that the key gets.
    pub fn value(&self) -> Option<&T> {
        self.as_ref().into_value()
    }

    pub(crate) fn value_mut(&mut self) -> Option<&mut T> {
        match self {
            Self::Set(value) | Self::Replace(value) => Some(value),
            Self::Remove => None,
        }
    }

    /// Returns the value that the key gets.
    pub fn into_value(self) -> Option<T> {
        match self {
            Self::Set(value) | Self::Replace(value) => Some(value),
            Self::Remove => None,
        }
    }

    /// Says whether what was there goes first.
    pub fn is_removal(&self) -> bool {
        matches!(self, Self::Replace(_) | Self::Remove)
    }

    /// Makes the same change with another value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Change<U> {
        match self {
            Self::Set(value) => Change::Set(f(value)),
            Self::Replace(value) => Change::Replace(f(value)),
            Self::Remove => Change::Remove,
        }
    }
}

/// A key that no plugin can set: the protocol would read it as the removal of another one.
///
/// This is so for each key that begins with a dash. Such a key can be removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot set {}: to the protocol a leading dash is a removal", quoted(.0))]
pub struct DashedKey(pub String);
