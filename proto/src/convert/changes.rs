//! Changes on the wire: a dash in front of a removed key, and an empty first argument.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Translate;
use crate::model::marker::{mark, removed};
use crate::model::{Args, Change, ChangeList, ChangeMap, Keyed, ListChange};

/// A key that occurs with and without a dash is replaced. The value of a dashed key is ignored.
impl<M: Translate<W>, W> Translate<ChangeMap<W>> for HashMap<String, M> {
    fn translate(self) -> ChangeMap<W> {
        let mut changes = BTreeMap::new();
        let mut values = Vec::new();
        for (key, value) in self {
            match removed(&key) {
                Some(key) => _ = changes.insert(key.to_owned(), Change::Remove),
                None => values.push((key, value.translate())),
            }
        }
        for (key, value) in values {
            let change = if changes.contains_key(&key) { Change::Replace(value) } else { Change::Set(value) };
            changes.insert(key, change);
        }
        ChangeMap::from_checked(changes)
    }
}

impl<W: Translate<M>, M: Default> Translate<HashMap<String, M>> for ChangeMap<W> {
    fn translate(self) -> HashMap<String, M> {
        let mut entries = HashMap::with_capacity(self.len());
        for (key, change) in self {
            if change.is_removal() {
                entries.insert(mark(&key), M::default());
            }
            if let Some(value) = change.into_value() {
                entries.insert(key, value.translate());
            }
        }
        entries
    }
}

/// A key that occurs with and without a dash, in any order, is replaced. The other fields of an
/// item with a dashed key are ignored.
impl<M: Translate<W>, W: Keyed> Translate<ChangeList<W>> for Vec<M> {
    fn translate(self) -> ChangeList<W> {
        let items: Vec<W> = self.into_iter().map(M::translate).collect();
        let gone: HashSet<String> = items.iter().filter_map(|item| removed(item.key())).map(str::to_owned).collect();
        let set = items.iter().map(W::key).filter(|key| removed(key).is_none());
        let replaced: HashSet<String> = set.filter(|key| gone.contains(*key)).map(str::to_owned).collect();

        let entries = items.into_iter().filter_map(|item| match removed(item.key()) {
            Some(key) if replaced.contains(key) => None,
            Some(key) => Some(ListChange::Remove(key.to_owned())),
            None if replaced.contains(item.key()) => Some(ListChange::Replace(item)),
            None => Some(ListChange::Set(item)),
        });
        ChangeList::from_checked(entries.collect())
    }
}

impl<W: Keyed + Translate<M>, M> Translate<Vec<M>> for ChangeList<W> {
    fn translate(self) -> Vec<M> {
        let marked = |key: &str| {
            let mut item = W::default();
            item.set_key(mark(key));
            item.translate()
        };
        let mut entries = Vec::with_capacity(self.len());
        for entry in self.into_entries() {
            match entry {
                ListChange::Set(value) => entries.push(value.translate()),
                ListChange::Replace(value) => entries.extend([marked(value.key()), value.translate()]),
                ListChange::Remove(key) => entries.push(marked(&key)),
            }
        }
        entries
    }
}

impl Translate<Args> for Vec<String> {
    fn translate(self) -> Args {
        Args::from_wire(self)
    }
}

impl Translate<Vec<String>> for Args {
    fn translate(self) -> Vec<String> {
        self.into_wire()
    }
}
