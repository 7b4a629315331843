//! Changes to a map.

use std::collections::{BTreeMap, BTreeSet, btree_map};

use super::{Change, DashedKey, marker};

/// Changes to a map, such as annotations: at most one for each key, ordered by key.
///
/// A key that begins with a dash cannot be set, only removed, because the wire cannot express it.
///
/// ```
/// use nri_proto::{Change, ChangeMap};
///
/// let mut annotations: ChangeMap<String> = ChangeMap::new();
/// annotations.set("example.org/class", "gold")?;
/// annotations.replace("example.org/cpus", "0-3")?;
/// annotations.remove("example.org/debug");
/// assert_eq!(annotations.get("example.org/debug"), Some(Change::Remove));
///
/// assert!(annotations.set("-x", "1").is_err());
/// # Ok::<(), nri_proto::DashedKey>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeMap<T>(BTreeMap<String, Change<T>>);

impl<T> ChangeMap<T> {
    /// Creates a map without changes.
    pub fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Sets `key`. If the key was removed before, the result is a replacement.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<T>) -> Result<(), DashedKey> {
        let key = key.into();
        marker::check(&key)?;
        let change = match self.0.get(&key) {
            Some(Change::Replace(_) | Change::Remove) => Change::Replace(value.into()),
            Some(Change::Set(_)) | None => Change::Set(value.into()),
        };
        self.0.insert(key, change);
        Ok(())
    }

    /// Sets `key`, even if another plugin has set it.
    pub fn replace(&mut self, key: impl Into<String>, value: impl Into<T>) -> Result<(), DashedKey> {
        let key = key.into();
        marker::check(&key)?;
        self.0.insert(key, Change::Replace(value.into()));
        Ok(())
    }

    /// Removes `key`, even if another plugin has set it.
    pub fn remove(&mut self, key: impl Into<String>) {
        self.0.insert(key.into(), Change::Remove);
    }

    /// Returns the change to `key`.
    pub fn get(&self, key: &str) -> Option<Change<&T>> {
        self.0.get(key).map(Change::as_ref)
    }

    /// Returns whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of keys that change.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the changes, ordered by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, Change<&T>)> {
        self.0.iter().map(|(key, change)| (key.as_str(), change.as_ref()))
    }

    /// Replaces each key by its normal form. `spell` returns `None` for a key in its normal form.
    ///
    /// A removal of one spelling of a key and a value for another become a replacement. If the
    /// normal form of a set key begins with a dash, the key is kept, since such a key could not be
    /// set.
    ///
    /// # Errors
    ///
    /// Fails with the first key that is set under two spellings. The changes are not modified then.
    pub fn respell(&mut self, spell: impl Fn(&str) -> Option<String>) -> Result<(), String> {
        let respelled = |(key, change): (&String, &Change<T>)| {
            spell(key).filter(|new| change.value().is_none() || marker::check(new).is_ok())
        };
        if self.0.iter().all(|entry| respelled(entry).is_none()) {
            return Ok(());
        }
        let mut values = BTreeSet::new();
        let is_set_twice = |(key, change): (&String, &Change<T>)| {
            let key = respelled((key, change)).unwrap_or_else(|| key.clone());
            (change.value().is_some() && !values.insert(key.clone())).then_some(key)
        };
        if let Some(twice) = self.0.iter().find_map(is_set_twice) {
            return Err(twice);
        }
        for (key, change) in std::mem::take(&mut self.0) {
            let key = respelled((&key, &change)).unwrap_or(key);
            let united = match (self.0.remove(&key), change) {
                (None, change) => change,
                (Some(Change::Remove), Change::Set(value) | Change::Replace(value)) => Change::Replace(value),
                (Some(Change::Set(value) | Change::Replace(value)), _) => Change::Replace(value),
                (Some(Change::Remove), Change::Remove) => Change::Remove,
            };
            self.0.insert(key, united);
        }
        Ok(())
    }

    /// Combines these changes with later ones. If both change a key, the later change wins.
    pub fn then(&mut self, later: Self) {
        if self.0.is_empty() {
            *self = later;
        } else {
            self.0.extend(later.0);
        }
    }

    /// Creates a map from changes whose keys the caller has checked.
    pub(crate) fn from_checked(changes: BTreeMap<String, Change<T>>) -> Self {
        Self(changes)
    }

    /// Sets a key that the caller has checked.
    pub(crate) fn insert_checked(&mut self, key: String, value: T) {
        self.0.insert(key, Change::Set(value));
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.values_mut().filter_map(Change::value_mut)
    }
}

impl<T> Default for ChangeMap<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> IntoIterator for ChangeMap<T> {
    type Item = (String, Change<T>);
    type IntoIter = btree_map::IntoIter<String, Change<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(changes: ChangeMap<String>, expected: Change<&str>) {
        assert_eq!(changes.get("k").map(|change| change.map(String::as_str)), Some(expected));
        assert_eq!(changes.len(), 1);
    }

    fn changed(change: impl FnOnce(&mut ChangeMap<String>)) -> ChangeMap<String> {
        let mut changes = ChangeMap::new();
        change(&mut changes);
        changes
    }

    fn set(changes: &mut ChangeMap<String>) {
        changes.set("k", "v").unwrap();
    }

    #[test]
    fn what_is_removed_and_then_set_is_replaced() {
        let changes = changed(|changes| {
            changes.remove("k");
            set(changes);
        });
        check(changes, Change::Replace("v"));
    }

    #[test]
    fn changes_of_one_key_under_two_spellings_are_changes_of_one_key() {
        let plain = |key: &str| key.strip_suffix('/').map(str::to_owned);
        let mut changes = changed(set);
        changes.remove("k/");
        changes.respell(plain).unwrap();
        check(changes, Change::Replace("v"));

        let mut changes = changed(set);
        changes.set("k/", "w").unwrap();
        let before = changes.clone();
        assert_eq!(changes.respell(plain), Err("k".to_owned()));
        assert_eq!(changes, before);

        let mut changes = changed(|changes| changes.remove("k/"));
        changes.remove("k");
        changes.respell(plain).unwrap();
        check(changes, Change::Remove);
    }

    #[test]
    fn the_last_change_of_a_key_counts() {
        let removed = |changes: &mut ChangeMap<String>| {
            set(changes);
            changes.remove("k");
        };
        check(changed(removed), Change::Remove);

        let mut changes = changed(set);
        changes.then(changed(removed));
        check(changes, Change::Remove);
    }
}
