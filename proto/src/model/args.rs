use super::Change;

/// What becomes of the command and its arguments.
///
/// The whole list is one entry. By default it stays as it is. The wire says "also if another plugin set it" by an empty
/// first argument, so a list that begins with one cannot be set, only replaced.
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
    /// Whether what another plugin set goes first.
    replaces: bool,
    /// Begins with an empty one only if `replaces`.
    list: Vec<String>,
}

impl Args {
    /// Sets the list, which is a conflict if another plugin set it. An empty one leaves it as it is.
    pub fn set(list: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, EmptyCommand> {
        let list: Vec<String> = list.into_iter().map(Into::into).collect();
        match list.first() {
            Some(command) if command.is_empty() => Err(EmptyCommand),
            Some(_) | None => Ok(Self { replaces: false, list }),
        }
    }

    /// Sets the list, also if another plugin set it. An empty one undoes what it set.
    pub fn replace(list: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { replaces: true, list: list.into_iter().map(Into::into).collect() }
    }

    /// Returns what becomes of the list, if anything does.
    pub fn change(&self) -> Option<Change<&[String]>> {
        match (self.replaces, self.list.as_slice()) {
            (false, []) => None,
            (false, list) => Some(Change::Set(list)),
            (true, []) => Some(Change::Remove),
            (true, list) => Some(Change::Replace(list)),
        }
    }

    /// Adds a change that is made after this one.
    ///
    /// A replacement is then no more than a list, since nobody else's is left, and a removal leaves nothing. That list
    /// is read as the wire would: an empty first argument replaces.
    pub fn then(&mut self, later: Self) {
        if later != Self::default() {
            *self = Self::from_wire(later.list);
        }
    }

    /// Reads a list as the wire has it: an empty first argument says that the rest replaces.
    pub(crate) fn from_wire(mut list: Vec<String>) -> Self {
        let replaces = list.first().is_some_and(String::is_empty);
        if replaces {
            list.remove(0);
        }
        Self { replaces, list }
    }

    /// Returns the list as the wire has it.
    pub(crate) fn into_wire(self) -> Vec<String> {
        let mut list = self.list;
        if self.replaces {
            list.insert(0, String::new());
        }
        list
    }

    /// Whoever adds one this way has looked whether it is an empty first one.
    pub(crate) fn push_checked(&mut self, argument: String) {
        self.list.push(argument);
    }
}

/// A list of arguments that begins with an empty one cannot be set: the protocol would read it as a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot set arguments of which the first is empty: to the protocol that is a replacement")]
pub struct EmptyCommand;
