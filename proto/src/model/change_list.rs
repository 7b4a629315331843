//! Changes to a list whose items have keys.

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use super::{Change, DashedKey, marker};

/// An item of a list with a key, such as a mount with its destination.
pub trait Keyed: Default {
    /// Returns the key of the item.
    fn key(&self) -> &str;

    /// Changes the key of the item.
    fn set_key(&mut self, key: String);
}

/// Changes to a list whose items have keys, such as mounts, in the order in which they were made.
///
/// A key has one change, except that it can be set several times by mistake. Merging reports that
/// as a conflict of the plugin with itself. A key that begins with a dash cannot be set, only
/// removed.
///
/// ```
/// use nri_proto::{Change, ChangeList, EnvVar};
///
/// let mut env = ChangeList::new();
/// env.set(EnvVar::new("GOMAXPROCS", "4"))?;
/// env.remove("HTTP_PROXY");
///
/// let value = |change: Change<&EnvVar>| change.into_value().map(|var| var.value.clone());
/// let changes: Vec<_> = env.iter().map(|(name, change)| (name, value(change))).collect();
/// assert_eq!(changes, [("GOMAXPROCS", Some("4".to_owned())), ("HTTP_PROXY", None)]);
/// # Ok::<(), nri_proto::DashedKey>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
// The entries of a key are either all `Set`, all `Replace`, or all `Remove`. The wire can express
// no other combination.
pub struct ChangeList<T>(Vec<ListChange<T>>);

/// A change to one key. A new value contains its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListChange<T> {
    Set(T),
    Replace(T),
    Remove(String),
}

impl<T> ChangeList<T> {
    /// Creates a list without changes.
    pub fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of changes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Creates a list from changes whose keys the caller has checked.
    pub(crate) fn from_checked(entries: Vec<ListChange<T>>) -> Self {
        Self(entries)
    }

    /// Appends a value whose key the caller has checked.
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
    /// Sets a value. If its key was removed before, the result is a replacement.
    pub fn set(&mut self, value: T) -> Result<(), DashedKey> {
        marker::check(value.key())?;
        let goes_first = self.get(value.key()).is_some_and(|change| change.is_removal());
        self.0.retain(|entry| entry.key() != value.key() || !matches!(entry, ListChange::Remove(_)));
        self.0.push(if goes_first { ListChange::Replace(value) } else { ListChange::Set(value) });
        Ok(())
    }

    /// Sets a value, even if another plugin has set its key.
    pub fn replace(&mut self, value: T) -> Result<(), DashedKey> {
        marker::check(value.key())?;
        self.0.retain(|entry| entry.key() != value.key());
        self.0.push(ListChange::Replace(value));
        Ok(())
    }

    /// Removes `key`, even if another plugin has set it.
    pub fn remove(&mut self, key: impl Into<String>) {
        let key = key.into();
        self.0.retain(|entry| entry.key() != key);
        self.0.push(ListChange::Remove(key));
    }

    /// Returns the change to `key`. If it is set several times, the last one.
    pub fn get(&self, key: &str) -> Option<Change<&T>> {
        self.0.iter().rev().find(|entry| entry.key() == key).map(ListChange::change)
    }

    /// Returns the changes in the order in which they were made.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, Change<&T>)> {
        self.0.iter().map(|entry| (entry.key(), entry.change()))
    }

    /// Replaces each key by its normal form. `spell` returns `None` for a key in its normal form.
    ///
    /// Changes to several spellings of a key become changes to one key; if one of them is a removal
    /// or a replacement, all values become replacements. If the normal form of a set key begins
    /// with a dash, the key is kept, since such a key could not be set.
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

    /// Unifies the changes of each key, so that they are all sets, all replacements, or one
    /// removal.
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

    /// Returns the keys that change, for lookups.
    pub fn keys(&self) -> ChangedKeys<'_, T> {
        ChangedKeys::of(self)
    }

    /// Combines these changes with later ones.
    ///
    /// A later change replaces the earlier changes to the same key. If one of these was a removal
    /// or a replacement, a later value becomes a replacement. Otherwise a later replacement becomes
    /// a set, because no earlier value of the key is left. Repeated removals of a key become one.
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

    /// Drops repeated removals of a key.
    fn remove_once(&mut self) {
        let is_removal = |entry: &&ListChange<T>| matches!(entry, ListChange::Remove(_));
        if self.0.iter().filter(is_removal).nth(1).is_some() {
            let mut removed = HashSet::new();
            self.0.retain(|entry| !is_removal(&entry) || removed.insert(entry.key().to_owned()));
        }
    }

    /// Appends later changes. `was_removed` tells which keys an earlier change removed.
    fn extend(&mut self, later: Self, was_removed: impl Fn(&str) -> bool) {
        let added = later.0.into_iter().map(|entry| match entry {
            ListChange::Set(value) | ListChange::Replace(value) if was_removed(value.key()) => {
                ListChange::Replace(value)
            }
            ListChange::Set(value) | ListChange::Replace(value) => ListChange::Set(value),
            ListChange::Remove(key) => ListChange::Remove(key),
        });
        if self.0.is_empty() {
            // Reuses the allocation of `later`.
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

/// The keys of a [`ChangeList`], for lookups.
#[derive(Debug)]
pub enum ChangedKeys<'a, T> {
    /// Few keys, for which comparing with each is faster than hashing.
    Few(&'a ChangeList<T>),
    /// Many keys, in a hash set. A peer determines their number.
    Many(HashSet<&'a str>),
}

impl<'a, T: Keyed> ChangedKeys<'a, T> {
    const FEW: usize = 8;

    #[inline]
    fn of(list: &'a ChangeList<T>) -> Self {
        if list.len() <= Self::FEW { Self::Few(list) } else { Self::Many(list.0.iter().map(ListChange::key).collect()) }
    }

    /// Returns whether `key` is one of the keys.
    pub fn contains(&self, key: &str) -> bool {
        match self {
            Self::Few(list) => list.0.iter().any(|entry| entry.key() == key),
            Self::Many(keys) => keys.contains(key),
        }
    }

    /// Returns whether one of `all` has one of these keys.
    ///
    /// `is` compares an element with a key, and `key` returns the key of an element. If there are
    /// few keys, `is` is used, which can be faster.
    #[inline]
    pub fn are_in<E>(&self, all: &[E], is: impl Fn(&E, &str) -> bool, key: impl Fn(&E) -> &str) -> bool {
        match self {
            Self::Few(list) => list.0.iter().map(ListChange::key).any(|key| all.iter().any(|one| is(one, key))),
            Self::Many(keys) => all.iter().any(|one| keys.contains(key(one))),
        }
    }
}
