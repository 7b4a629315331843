#[cfg(test)]
mod tests;

use std::collections::HashSet;

use super::{Change, DashedKey, marker};

/// Something in a list that is known by a key of its own, as a mount is by its destination.
pub trait Keyed: Default {
    /// Returns the key.
    fn key(&self) -> &str;

    /// Gives it another key.
    fn set_key(&mut self, key: String);
}

/// Changes to a list whose entries have keys, such as mounts: in the order in which they were made.
///
/// A key may be set twice, by mistake: the merge calls that a conflict of the plugin with itself. Otherwise a key has
/// one change, as in a [`ChangeMap`](super::ChangeMap), and here too one that begins with a dash can only be removed.
///
/// ```
/// use nri_proto::{Change, ChangeList, EnvVar};
///
/// let mut env = ChangeList::new();
/// env.set(EnvVar::new("GOMAXPROCS", "4"))?;
/// env.remove("HTTP_PROXY");
///
/// let changes: Vec<_> = env.iter().map(|(name, change)| (name, change.into_value().map(|var| &*var.value))).collect();
/// assert_eq!(changes, [("GOMAXPROCS", Some("4")), ("HTTP_PROXY", None)]);
/// # Ok::<(), nri_proto::DashedKey>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
// For each key, either all are set, or all are replaced, or all are removed. The wire can say no more.
pub struct ChangeList<T>(Vec<ListChange<T>>);

/// What has a value has its key in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListChange<T> {
    Set(T),
    Replace(T),
    Remove(String),
}

impl<T> ChangeList<T> {
    /// Changes nothing.
    pub fn new() -> Self {
        Self(Vec::new())
    }

    /// Says whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns how many changes there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whoever makes one this way has looked at the keys.
    pub(crate) fn from_checked(entries: Vec<ListChange<T>>) -> Self {
        Self(entries)
    }

    /// As above: sets one more.
    pub(crate) fn push_checked(&mut self, value: T) {
        self.0.push(ListChange::Set(value));
    }

    pub(crate) fn into_entries(self) -> Vec<ListChange<T>> {
        self.0
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().filter_map(|entry| match entry {
            ListChange::Set(value) | ListChange::Replace(value) => Some(value),
            ListChange::Remove(_) => None,
        })
    }
}

impl<T: Keyed> ChangeList<T> {
    /// Gives a key a value. If it was removed before, it is replaced.
    pub fn set(&mut self, value: T) -> Result<(), DashedKey> {
        marker::check(value.key())?;
        let goes_first = self.get(value.key()).is_some_and(|change| change.is_removal());
        self.0.retain(|entry| entry.key() != value.key() || !matches!(entry, ListChange::Remove(_)));
        self.0.push(if goes_first { ListChange::Replace(value) } else { ListChange::Set(value) });
        Ok(())
    }

    /// Gives a key a value, also if another plugin gave it one.
    pub fn replace(&mut self, value: T) -> Result<(), DashedKey> {
        marker::check(value.key())?;
        self.0.retain(|entry| entry.key() != value.key());
        self.0.push(ListChange::Replace(value));
        Ok(())
    }

    /// Removes `key`, also if another plugin gave it a value.
    pub fn remove(&mut self, key: impl Into<String>) {
        let key = key.into();
        self.0.retain(|entry| entry.key() != key);
        self.0.push(ListChange::Remove(key));
    }

    /// Returns what becomes of `key`; the last of several.
    pub fn get(&self, key: &str) -> Option<Change<&T>> {
        self.0.iter().rev().find(|entry| entry.key() == key).map(ListChange::change)
    }

    /// Returns the changes in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, Change<&T>)> {
        self.0.iter().map(|entry| (entry.key(), entry.change()))
    }

    /// Spells keys as `spell` says, which returns nothing for one that is spelled so already. What changes under two spellings of a key
    /// then changes one key: what is removed under one of them goes first. A key that could not be set stays as it is.
    pub fn respell(&mut self, spell: impl Fn(&str) -> Option<String>) {
        let mut is_respelled = false;
        for entry in &mut self.0 {
            let Some(key) = spell(entry.key()) else { continue };
            match entry {
                ListChange::Set(_) | ListChange::Replace(_) if marker::check(&key).is_err() => continue,
                ListChange::Set(value) | ListChange::Replace(value) => value.set_key(key),
                ListChange::Remove(removed) => *removed = key,
            }
            is_respelled = true;
        }
        if is_respelled {
            self.unite();
        }
    }

    /// Makes of the changes of each key either sets, or replacements, or one removal.
    fn unite(&mut self) {
        let keys_of = |is_meant: fn(&ListChange<T>) -> bool| -> HashSet<String> {
            self.0.iter().filter(|entry| is_meant(entry)).map(|entry| entry.key().to_owned()).collect()
        };
        let removed = keys_of(|entry| !matches!(entry, ListChange::Set(_)));
        let set = keys_of(|entry| !matches!(entry, ListChange::Remove(_)));
        let united = std::mem::take(&mut self.0).into_iter().filter_map(|entry| match entry {
            ListChange::Remove(key) if set.contains(&key) => None,
            ListChange::Set(value) if removed.contains(value.key()) => Some(ListChange::Replace(value)),
            entry @ (ListChange::Set(_) | ListChange::Replace(_) | ListChange::Remove(_)) => Some(entry),
        });
        self.0 = united.collect();
        self.remove_once();
    }

    /// Returns the keys that change.
    pub fn keys(&self) -> Keys<'_, T> {
        Keys::of(self)
    }

    /// Adds changes that are made after these.
    ///
    /// What the later ones change goes from the earlier ones; a removal among the latter stays in front of the new
    /// value. A replacement is then no more than a value, since nobody else's is left. One removal of a key is enough.
    pub fn then(&mut self, mut later: Self) {
        if later.is_empty() {
            return;
        }
        later.remove_once();
        let keys = later.keys();
        if keys.are_in(&self.0, |entry, key| entry.key() == key, ListChange::key) {
            let gone = self.0.extract_if(.., |entry| keys.contains(entry.key()));
            let removed: HashSet<_> =
                gone.filter(|entry| !matches!(entry, ListChange::Set(_))).map(ListChange::into_key).collect();
            return self.extend(later, |key| removed.contains(key));
        }
        self.extend(later, |_| false);
    }

    /// Forgets removals of what is removed already.
    fn remove_once(&mut self) {
        let is_removal = |entry: &&ListChange<T>| matches!(entry, ListChange::Remove(_));
        if self.0.iter().filter(is_removal).nth(1).is_some() {
            let mut removed = HashSet::new();
            self.0.retain(|entry| !is_removal(&entry) || removed.insert(entry.key().to_owned()));
        }
    }

    /// Adds changes, where it is known which keys were removed before.
    fn extend(&mut self, later: Self, was_removed: impl Fn(&str) -> bool) {
        let added = later.0.into_iter().map(|entry| match entry {
            ListChange::Set(value) | ListChange::Replace(value) if was_removed(value.key()) => {
                ListChange::Replace(value)
            }
            ListChange::Set(value) | ListChange::Replace(value) => ListChange::Set(value),
            ListChange::Remove(key) => ListChange::Remove(key),
        });
        if self.0.is_empty() {
            // They stay where they are.
            self.0 = added.collect();
        } else {
            self.0.extend(added);
        }
    }
}

impl<T: Keyed> ListChange<T> {
    fn key(&self) -> &str {
        match self {
            Self::Set(value) | Self::Replace(value) => value.key(),
            Self::Remove(key) => key,
        }
    }

    fn into_key(self) -> String {
        match self {
            Self::Set(value) | Self::Replace(value) => value.key().to_owned(),
            Self::Remove(key) => key,
        }
    }

    fn change(&self) -> Change<&T> {
        match self {
            Self::Set(value) => Change::Set(value),
            Self::Replace(value) => Change::Replace(value),
            Self::Remove(_) => Change::Remove,
        }
    }
}

impl<T> Default for ChangeList<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The keys of a [`ChangeList`], to look whether one is among them.
#[derive(Debug)]
pub enum Keys<'a, T> {
    /// They are so few that looking at each is quicker than hashing one.
    Few(&'a ChangeList<T>),
    /// There may be as many as a peer likes.
    Many(HashSet<&'a str>),
}

impl<'a, T: Keyed> Keys<'a, T> {
    const FEW: usize = 8;

    #[inline]
    fn of(list: &'a ChangeList<T>) -> Self {
        if list.len() <= Self::FEW { Self::Few(list) } else { Self::Many(list.0.iter().map(ListChange::key).collect()) }
    }

    /// Says whether `key` is one of them.
    pub fn contains(&self, key: &str) -> bool {
        match self {
            Self::Few(list) => list.0.iter().any(|entry| entry.key() == key),
            Self::Many(keys) => keys.contains(key),
        }
    }

    /// Says whether one of `all` has one of these keys. `is` compares one with a key, and `key` tells the key that one has:
    /// if there are few keys, the former is quicker.
    #[inline]
    pub fn are_in<E>(&self, all: &[E], is: impl Fn(&E, &str) -> bool, key: impl Fn(&E) -> &str) -> bool {
        match self {
            Self::Few(list) => list.0.iter().map(ListChange::key).any(|key| all.iter().any(|one| is(one, key))),
            Self::Many(keys) => all.iter().any(|one| keys.contains(key(one))),
        }
    }
}
