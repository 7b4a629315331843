//! One table of a configuration file.

use toml::{Table, Value};

use super::Fault;
use super::KeyPath;
use super::Problem;
use super::Setting;

/// A table whose keys are taken one by one. The keys that are left at the end are unknown, and are
/// reported with the most similar key that was taken. So no separate list of known keys exists that
/// could become outdated.
pub(crate) struct Section<'a> {
    place: KeyPath,
    table: Table,
    known: Vec<&'static str>,
    problems: &'a mut Vec<(KeyPath, Fault)>,
}

impl<'a> Section<'a> {
    /// Creates a section for the table at `place`. Problems are added to `problems`.
    pub(crate) fn new(place: KeyPath, table: Table, problems: &'a mut Vec<(KeyPath, Fault)>) -> Self {
        Self { place, table, known: Vec::new(), problems }
    }

    /// Takes the value of a key, if the table has the key. Reports an invalid value.
    pub(crate) fn take<T: Setting>(&mut self, key: &'static str) -> Option<T> {
        self.take_with(key, T::read)
    }

    /// Takes the value of a key whose type has a value that means "not set", such as an empty path.
    /// Returns `None` for that value.
    pub(crate) fn take_set<T>(&mut self, key: &'static str) -> Option<T>
    where
        Option<T>: Setting,
    {
        self.take::<Option<T>>(key).flatten()
    }

    /// Takes the value of a key and reads it with `read`. If the value is invalid, `read` returns a
    /// description of the valid values.
    pub(crate) fn take_with<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Option<T> {
        self.known.push(key);
        let value = self.table.remove(key)?;
        read(&value)
            .map_err(|expected| self.report(key, Fault::Value { found: shortened(&value.to_string()), expected }))
            .ok()
    }

    /// Takes the table under a key.
    pub(crate) fn section(&mut self, key: &'static str) -> Option<Section<'_>> {
        let table = self.take_with(key, table)?;
        Some(Section::new(self.place.of(key), table, self.problems))
    }

    /// Takes all tables in this table, and passes each with its name to `read`.
    pub(crate) fn sections(&mut self, mut read: impl FnMut(&str, &mut Section<'_>)) {
        for (key, value) in std::mem::take(&mut self.table) {
            match table(&value) {
                Ok(table) => {
                    let mut section = Section::new(self.place.of(&key), table, self.problems);
                    read(&key, &mut section);
                    section.finish(&[]);
                }
                Err(expected) => self.report(&key, Fault::Value { found: shortened(&value.to_string()), expected }),
            }
        }
    }

    /// Reports a problem of a key of this table.
    pub(crate) fn report(&mut self, key: &str, fault: Fault) {
        self.problems.push((self.place.of(key), fault));
    }

    /// Reports a problem of a key in a table inside this one. `keys` leads to that key, `other` to
    /// the second key that the problem concerns; both begin at this table.
    pub(crate) fn report_deeper(&mut self, keys: &[&str], other: &[&str], fault: impl FnOnce(String) -> Fault) {
        let place = |keys: &[&str]| keys.iter().fold(self.place.clone(), |place, key| place.of(key));
        let fault = fault(place(other).to_string());
        self.problems.push((place(keys), fault));
    }

    /// Reports a problem of this table as a whole.
    pub(crate) fn report_all(&mut self, fault: Fault) {
        self.problems.push((self.place.clone(), fault));
    }

    /// Reports each key that was not taken as unknown, with the most similar known key. Known keys
    /// are those of this table, and those of `elsewhere`: pairs of a key and the path to suggest.
    pub(crate) fn finish(&mut self, elsewhere: &[(&str, String)]) {
        for (key, _) in std::mem::take(&mut self.table) {
            let here = self.known.iter().map(|known| (*known, (*known).to_owned()));
            let candidates = here.chain(elsewhere.iter().cloned());
            let nearest = nearest(&key, candidates);
            self.report(&key, Fault::Unknown { nearest });
        }
    }

    /// Returns the keys that are known: those that were taken so far.
    pub(crate) fn known(&self) -> &[&'static str] {
        &self.known
    }
}

impl Problem {
    /// Creates a problem without a line.
    pub(crate) fn new((place, fault): (KeyPath, Fault)) -> Self {
        Self { line: None, place: place.to_string(), fault }
    }
}

fn table(value: &Value) -> Result<Table, String> {
    value.as_table().cloned().ok_or_else(|| "a table".to_owned())
}

/// Shortens a value for use in a sentence.
fn shortened(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the candidate that is most similar to `key`, if any is similar enough. If several are
/// equally similar, the first is returned.
pub(crate) fn nearest<'c>(key: &str, candidates: impl Iterator<Item = (&'c str, String)>) -> Option<String> {
    const NEAR: f64 = 0.6;
    let key = plain(key);
    let mut best = (NEAR, None);
    for (candidate, shown) in candidates {
        let candidate = plain(candidate);
        let nearness = match () {
            // A known key that is contained in the unknown key counts as similar, unless the known
            // key is short: a short text may be a part of many keys.
            () if key.contains(&candidate) && candidate.len() > 5 => 0.9,
            () => strsim::normalized_damerau_levenshtein(&key, &candidate),
        };
        if nearness > best.0 {
            best = (nearness, Some(shown));
        }
    }
    best.1
}

/// Normalizes the spelling of a key, so that `keepConnected` and `keep-connected` are equal.
fn plain(key: &str) -> String {
    key.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}
