//! What no spec can have, whoever asks for it.

use std::ops::RangeInclusive;

use nri_proto::Field;
use serde::de::value::{Error, StrDeserializer};
use serde::de::{Deserialize, IntoDeserializer};

use super::SpecError;

/// Something that is checked, by the name that an error has for it.
#[derive(Clone, Copy)]
pub(super) struct Checked<'a> {
    field: Field,
    key: &'a str,
}

/// Begins to check an entry of a field; the key is empty if it has no entries.
pub(super) fn of(field: Field, key: &str) -> Checked<'_> {
    Checked { field, key }
}

impl Checked<'_> {
    pub(super) fn refuse(self, problem: &'static str) -> SpecError {
        SpecError::refused(self.field, self.key, problem)
    }

    pub(super) fn holds(self, holds: bool, problem: &'static str) -> Result<(), SpecError> {
        if holds { Ok(()) } else { Err(self.refuse(problem)) }
    }

    /// Text ends at a NUL, for the kernel.
    pub(super) fn text(self, text: &str) -> Result<(), SpecError> {
        self.holds(!text.contains('\0'), "there is a NUL in it")
    }

    pub(super) fn texts(self, texts: &[String]) -> Result<(), SpecError> {
        texts.iter().try_for_each(|text| self.text(text))
    }

    /// An absolute path that does not climb.
    pub(super) fn path(self, path: &str) -> Result<(), SpecError> {
        self.text(path)?;
        self.holds(path.starts_with('/'), "the path is not absolute")?;
        self.holds(path.split('/').all(|part| part != ".."), "the path has `..` in it")
    }

    pub(super) fn within<T: PartialOrd>(
        self,
        number: &T,
        range: &RangeInclusive<T>,
        problem: &'static str,
    ) -> Result<(), SpecError> {
        self.holds(range.contains(number), problem)
    }

    /// One of the names that OCI has for a `T`.
    pub(super) fn known<'t, T: Deserialize<'t>>(self, name: &'t str, problem: &'static str) -> Result<(), SpecError> {
        let deserializer: StrDeserializer<'t, Error> = name.into_deserializer();
        self.holds(T::deserialize(deserializer).is_ok(), problem)
    }
}
