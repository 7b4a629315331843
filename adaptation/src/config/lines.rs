//! On which line of a text something is written.

use toml::de::DeTable;

use crate::config::settings::KeyPath;

/// A TOML text and the line of each key in it.
pub(super) struct TomlLines<'t> {
    text: &'t str,
    root: DeTable<'t>,
}

impl<'t> TomlLines<'t> {
    /// Reads a text, as far as it can be.
    pub(super) fn of(text: &'t str) -> (Self, Vec<toml::de::Error>) {
        let (root, errors) = DeTable::parse_recoverable(text);
        (Self { text, root: root.into_inner() }, errors)
    }

    /// The line of a key.
    pub(super) fn find(&self, place: &KeyPath) -> Option<usize> {
        let (last, tables) = place.keys().split_last()?;
        let table = tables.iter().try_fold(&self.root, |table, key| table.get(key.as_str())?.get_ref().as_table())?;
        let (key, _) = table.iter().find(|(key, _)| key.get_ref() == last)?;
        Some(self.at(key.span().start))
    }

    /// The line of a byte.
    pub(super) fn at(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
    }
}
