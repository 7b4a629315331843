//! Finds the line of a key in a TOML text.

use toml::de::DeTable;

use crate::config::settings::KeyPath;

/// A TOML text, with the position of each key.
pub(super) struct TomlLines<'t> {
    text: &'t str,
    root: DeTable<'t>,
}

impl<'t> TomlLines<'t> {
    /// Parses a text as far as possible. Returns the syntax errors as well.
    pub(super) fn of(text: &'t str) -> (Self, Vec<toml::de::Error>) {
        let (root, errors) = DeTable::parse_recoverable(text);
        (Self { text, root: root.into_inner() }, errors)
    }

    /// Returns the line of a key, if the text has that key.
    pub(super) fn find(&self, place: &KeyPath) -> Option<usize> {
        let (last, tables) = place.keys().split_last()?;
        let table = tables.iter().try_fold(&self.root, |table, key| table.get(key.as_str())?.get_ref().as_table())?;
        let (key, _) = table.iter().find(|(key, _)| key.get_ref() == last)?;
        Some(self.at(key.span().start))
    }

    /// Returns the line of a byte offset.
    pub(super) fn at(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
    }
}
