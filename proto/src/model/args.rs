//! Changes to the command and its arguments.

use super::Change;

/// A change to the command and its arguments.
///
/// The list changes as a whole. By default it does not change. On the wire an empty first argument
/// marks a replacement, so a list that begins with an empty argument cannot be set, only replaced.
///
/// ```
/// use nri_proto::{Args, Change};
///
/// let args = Args::replace(["nice", "app"]);
/// assert_eq!(args.change(), Some(Change::Replace(&["nice".to_owned(), "app".to_owned()][..])));
/// assert_eq!(Args::default().change(), None);
///
/// assert_eq!(Args::set(["", "app"]), Err(nri_proto::EmptyCommand));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Args {
    /// Whether the change replaces that of another plugin.
    replaces: bool,
    /// The new list. It begins with an empty argument only if `replaces` is true.
    list: Vec<String>,
}

impl Args {
    /// Sets the list. This is a conflict if another plugin has set it. An empty list changes
    /// nothing.
    pub fn set(list: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, EmptyCommand> {
        let list: Vec<String> = list.into_iter().map(Into::into).collect();
        match list.first() {
            Some(command) if command.is_empty() => Err(EmptyCommand),
            Some(_) | None => Ok(Self { replaces: false, list }),
        }
    }

    /// Sets the list, even if another plugin has set it. An empty list removes the change of the
    /// other plugin.
    pub fn replace(list: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { replaces: true, list: list.into_iter().map(Into::into).collect() }
    }

    /// Returns the change, or `None` if the list does not change.
    pub fn change(&self) -> Option<Change<&[String]>> {
        match (self.replaces, self.list.as_slice()) {
            (false, []) => None,
            (false, list) => Some(Change::Set(list)),
            (true, []) => Some(Change::Remove),
            (true, list) => Some(Change::Replace(list)),
        }
    }

    /// Combines this change with a later one.
    ///
    /// A replacement becomes a plain list, and a removal becomes no change, because the earlier
    /// change is gone. If the plain list begins with an empty argument, it is read as on the wire:
    /// as a replacement.
    pub fn then(&mut self, later: Self) {
        if later != Self::default() {
            *self = Self::from_wire(later.list);
        }
    }

    /// Converts from the wire, where an empty first argument marks a replacement.
    pub(crate) fn from_wire(mut list: Vec<String>) -> Self {
        let replaces = list.first().is_some_and(String::is_empty);
        if replaces {
            list.remove(0);
        }
        Self { replaces, list }
    }

    /// Converts to the wire, where an empty first argument marks a replacement.
    pub(crate) fn into_wire(self) -> Vec<String> {
        let mut list = self.list;
        if self.replaces {
            list.insert(0, String::new());
        }
        list
    }

    /// Appends an argument. The caller has checked that it is not an empty first one.
    pub(crate) fn push_checked(&mut self, argument: String) {
        self.list.push(argument);
    }
}

/// The error for a list of arguments whose first argument is empty.
///
/// On the wire, such a list is a replacement, so it cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot set arguments of which the first is empty: in the protocol this is a replacement")]
pub struct EmptyCommand;
