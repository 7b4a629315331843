use std::collections::{BTreeMap, BTreeSet, btree_map};

use super::{Change, DashedKey, marker};

/// Changes to a map, such as annotations: one for each key, in the order of keys.
///
/// Every one that can be made can be said on the wire. So a key that begins with a dash cannot be set, only removed.
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
    /// Changes nothing.
    pub fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Gives `key` a value. If it was removed before, it is replaced.
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

    /// Gives `key` a value, also if another plugin gave it one.
    pub fn replace(&mut self, key: impl Into<String>, value: impl Into<T>) -> Result<(), DashedKey> {
        let key = key.into();
        marker::check(&key)?;
        self.0.insert(key, Change::Replace(value.into()));
        Ok(())
    }

    /// Removes `key`, also if another plugin gave it a value.
    pub fn remove(&mut self, key: impl Into<String>) {
        self.0.insert(key.into(), Change::Remove);
    }

    /// Returns what becomes of `key`.
    pub fn get(&self, key: &str) -> Option<Change<&T>> {
        self.0.get(key).map(Change::as_ref)
    }

    /// Says whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns how many keys change.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the changes, in the order of keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, Change<&T>)> {
        self.0.iter().map(|(key, change)| (key.as_str(), change.as_ref()))
    }

    /// Spells keys as `spell` says, which returns nothing for one that is spelled so already. What changes under two spellings of a key
    /// then changes one key: what is removed under one of them goes first. A key that could not be set stays as it is.
    ///
    /// # Errors
    ///
    /// The first key that is set under two spellings. Nothing is changed then.
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

    /// Adds changes that are made after these: where both change a key, the later one counts.
    pub fn then(&mut self, later: Self) {
        if self.0.is_empty() {
            *self = later;
        } else {
            self.0.extend(later.0);
        }
    }

    /// Whoever makes one this way has looked at the keys.
    pub(crate) fn from_checked(changes: BTreeMap<String, Change<T>>) -> Self {
        Self(changes)
    }

    /// As above: sets one more.
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
