#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::vec;

use super::{Change, DashedKey};
use crate::wire::marker;

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
/// let changes: Vec<_> = env.iter().map(|(name, change)| (name, change.value().map(|var| &*var.value))).collect();
/// assert_eq!(changes, [("GOMAXPROCS", Some("4")), ("HTTP_PROXY", None)]);
/// # Ok::<(), nri_proto::DashedKey>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
// For each key, either all are set, or all are replaced, or all are removed. The wire can say no more.
pub struct ChangeList<T>(Vec<(String, Change<T>)>);

impl<T: Keyed> ChangeList<T> {
    /// Gives a key a value. If it was removed before, it is replaced.
    pub fn set(&mut self, value: T) -> Result<(), DashedKey> {
        let key = marker::unmarked(value.key().to_owned())?;
        let goes_first = self.get(&key).is_some_and(Change::is_removal);
        self.0.retain(|(other, change)| *other != key || change.value().is_some());
        self.0.push((key, if goes_first { Change::Replace(value) } else { Change::Set(value) }));
        Ok(())
    }

    /// Gives a key a value, also if another plugin gave it one.
    pub fn replace(&mut self, value: T) -> Result<(), DashedKey> {
        let key = marker::unmarked(value.key().to_owned())?;
        self.0.retain(|(other, _)| *other != key);
        self.0.push((key, Change::Replace(value)));
        Ok(())
    }
}

impl<T> ChangeList<T> {
    /// Changes nothing.
    pub fn new() -> Self {
        Self(Vec::new())
    }

    /// Removes `key`, also if another plugin gave it a value.
    pub fn remove(&mut self, key: impl Into<String>) {
        let key = key.into();
        self.0.retain(|(other, _)| *other != key);
        self.0.push((key, Change::Remove));
    }

    /// Returns what becomes of `key`; the last of several.
    pub fn get(&self, key: &str) -> Option<&Change<T>> {
        self.0.iter().rev().find(|(other, _)| other == key).map(|(_, change)| change)
    }

    /// Says whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns how many changes there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the changes in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Change<T>)> {
        self.0.iter().map(|(key, change)| (key.as_str(), change))
    }

    /// Returns the keys that change.
    pub fn keys(&self) -> Keys<'_> {
        Keys::new(self.0.iter().map(|(key, _)| key.as_str()))
    }

    /// Adds changes that are made after these.
    ///
    /// What the later ones change goes from the earlier ones; a removal among the latter stays in front of the new
    /// value. A replacement is then no more than a value, since nobody else's is left.
    pub fn then(&mut self, later: Self) {
        let keys = later.keys();
        let mut removed = HashSet::new();
        let kept = |(key, change): &(String, Change<T>)| {
            let stays = !keys.contains(key);
            if !stays && change.is_removal() {
                removed.insert(key.clone());
            }
            stays
        };
        self.0.retain(kept);
        self.0.extend(later.0.into_iter().map(|(key, change)| {
            let change = match change.into_value() {
                Some(value) if removed.contains(&key) => Change::Replace(value),
                Some(value) => Change::Set(value),
                None => Change::Remove,
            };
            (key, change)
        }));
    }

    /// Whoever makes one this way has looked at the keys.
    pub(crate) fn from_checked(changes: Vec<(String, Change<T>)>) -> Self {
        Self(changes)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().filter_map(|(_, change)| change.value_mut())
    }
}

impl<T> Default for ChangeList<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> IntoIterator for ChangeList<T> {
    type Item = (String, Change<T>);
    type IntoIter = vec::IntoIter<(String, Change<T>)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// The keys of a [`ChangeList`], to look whether one is among them.
#[derive(Debug)]
pub struct Keys<'a> {
    /// All of them, if they are so few that looking at each is quicker than hashing one.
    few: Vec<&'a str>,
    /// All of them otherwise: there may be as many as a peer likes.
    many: HashSet<&'a str>,
}

impl<'a> Keys<'a> {
    const FEW: usize = 8;

    fn new(keys: impl ExactSizeIterator<Item = &'a str>) -> Self {
        if keys.len() <= Self::FEW {
            Self { few: keys.collect(), many: HashSet::new() }
        } else {
            Self { few: Vec::new(), many: keys.collect() }
        }
    }

    /// Says whether `key` is one of them.
    pub fn contains(&self, key: &str) -> bool {
        self.few.contains(&key) || self.many.contains(key)
    }
}
