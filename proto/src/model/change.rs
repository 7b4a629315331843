//! A change to one key.

use crate::text::quote::quoted;

/// A change to one key in an [`Adjustment`](super::Adjustment).
///
/// ```
/// use nri_proto::Change;
///
/// assert_eq!(Change::Replace("1").value(), Some(&"1"));
/// assert_eq!(Change::<&str>::Remove.value(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change<T> {
    /// The key gets this value. This is a conflict if another plugin has set the key.
    Set(T),
    /// The key gets this value, even if another plugin has set it.
    Replace(T),
    /// The key is removed, even if another plugin has set it.
    Remove,
}

impl<T> Change<T> {
    /// Returns the same change with a borrowed value.
    pub fn as_ref(&self) -> Change<&T> {
        match self {
            Self::Set(value) => Change::Set(value),
            Self::Replace(value) => Change::Replace(value),
            Self::Remove => Change::Remove,
        }
    }

    /// Returns the new value, or `None` for a removal.
    pub fn value(&self) -> Option<&T> {
        self.as_ref().into_value()
    }

    pub(crate) fn value_mut(&mut self) -> Option<&mut T> {
        match self {
            Self::Set(value) | Self::Replace(value) => Some(value),
            Self::Remove => None,
        }
    }

    /// Converts into the new value, or `None` for a removal.
    pub fn into_value(self) -> Option<T> {
        match self {
            Self::Set(value) | Self::Replace(value) => Some(value),
            Self::Remove => None,
        }
    }

    /// Returns whether the change removes the previous value: a replacement or a removal.
    pub fn is_removal(&self) -> bool {
        matches!(self, Self::Replace(_) | Self::Remove)
    }

    /// Converts the value with `f`.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Change<U> {
        match self {
            Self::Set(value) => Change::Set(f(value)),
            Self::Replace(value) => Change::Replace(f(value)),
            Self::Remove => Change::Remove,
        }
    }
}

/// The error of setting a key that begins with a dash.
///
/// In the protocol, such a key is the removal of another key. It can be removed, but not set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot set {}: in the protocol a leading dash is a removal", quoted(.0))]
pub struct DashedKey(pub String);
