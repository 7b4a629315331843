//! One table of a file.

use toml::{Table, Value};

use super::Fault;
use super::KeyPath;
use super::Problem;
use super::Setting;

/// A table whose keys are taken out one by one. What is left in the end is unknown, and reported
/// with the nearest of the keys that were asked for: there is no list of keys that could fall
/// behind.
pub(crate) struct Section<'a> {
    place: KeyPath,
    table: Table,
    known: Vec<&'static str>,
    problems: &'a mut Vec<(KeyPath, Fault)>,
}

impl<'a> Section<'a> {
    /// The table at `place`. What is wrong in it is added to `problems`.
    pub(crate) fn new(place: KeyPath, table: Table, problems: &'a mut Vec<(KeyPath, Fault)>) -> Self {
        Self { place, table, known: Vec::new(), problems }
    }

    /// Takes the value of a key, if it is there and as it must be.
    pub(crate) fn take<T: Setting>(&mut self, key: &'static str) -> Option<T> {
        self.take_with(key, T::read)
    }

    /// Takes the value of a key of a kind that can say nothing.
    pub(crate) fn take_set<T>(&mut self, key: &'static str) -> Option<T>
    where
        Option<T>: Setting,
    {
        self.take::<Option<T>>(key).flatten()
    }

    /// Takes the value of a key with a way to read it that says, if it cannot, what the value must
    /// be.
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

    /// Takes a table that lies in this one.
    pub(crate) fn section(&mut self, key: &'static str) -> Option<Section<'_>> {
        let table = self.take_with(key, table)?;
        Some(Section::new(self.place.of(key), table, self.problems))
    }

    /// Takes all tables that lie in this one, with the names that they have.
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

    /// Reports something about a key of this table.
    pub(crate) fn report(&mut self, key: &str, fault: Fault) {
        self.problems.push((self.place.of(key), fault));
    }

    /// Reports something about what lies deeper in this table, and what that has to do with what
    /// lies at `other`.
    pub(crate) fn report_deeper(&mut self, keys: &[&str], other: &[&str], fault: impl FnOnce(String) -> Fault) {
        let place = |keys: &[&str]| keys.iter().fold(self.place.clone(), |place, key| place.of(key));
        let fault = fault(place(other).to_string());
        self.problems.push((place(keys), fault));
    }

    /// Reports something about this table.
    pub(crate) fn report_all(&mut self, fault: Fault) {
        self.problems.push((self.place.clone(), fault));
    }

    /// Reports what nobody took, with the nearest key: one of this table, or of those `elsewhere`,
    /// which are given with their place.
    pub(crate) fn finish(&mut self, elsewhere: &[(&str, String)]) {
        for (key, _) in std::mem::take(&mut self.table) {
            let here = self.known.iter().map(|known| (*known, (*known).to_owned()));
            let candidates = here.chain(elsewhere.iter().cloned());
            let nearest = nearest(&key, candidates);
            self.report(&key, Fault::Unknown { nearest });
        }
    }

    /// The keys that were asked for.
    pub(crate) fn known(&self) -> &[&'static str] {
        &self.known
    }
}

impl Problem {
    /// A problem whose line is not known.
    pub(crate) fn new((place, fault): (KeyPath, Fault)) -> Self {
        Self { line: None, place: place.to_string(), fault }
    }
}

fn table(value: &Value) -> Result<Table, String> {
    value.as_table().cloned().ok_or_else(|| "a table".to_owned())
}

/// As much of a value as a sentence repeats.
fn shortened(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The candidate that `key` was probably meant to be. Of those that are equally near the first
/// counts.
pub(crate) fn nearest<'c>(key: &str, candidates: impl Iterator<Item = (&'c str, String)>) -> Option<String> {
    const NEAR: f64 = 0.6;
    let key = plain(key);
    let mut best = (NEAR, None);
    for (candidate, shown) in candidates {
        let candidate = plain(candidate);
        let nearness = match () {
            // `timeout` is a part of many: only a good part of a key stands for all of it.
            () if key.contains(&candidate) && candidate.len() > 5 => 0.9,
            () => strsim::normalized_damerau_levenshtein(&key, &candidate),
        };
        if nearness > best.0 {
            best = (nearness, Some(shown));
        }
    }
    best.1
}

/// A key without what is written in one way here and in another there: `keepConnected`,
/// `keep-connected`.
fn plain(key: &str) -> String {
    key.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}
