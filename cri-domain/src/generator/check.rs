//! Checks that apply to all values, whether a plugin, the kubelet or a CDI file requests them.

use std::ops::RangeInclusive;

use nri_proto::Field;
use serde::de::value::{Error, StrDeserializer};
use serde::de::{Deserialize, IntoDeserializer};

use super::SpecError;

/// Checks values of one entry of a field. Errors name the field and the entry.
#[derive(Clone, Copy)]
pub(super) struct FieldCheck<'a> {
    field: Field,
    key: &'a str,
}

/// Returns the checks for an entry of a field. The key is empty if the field has no entries.
pub(super) fn field(field: Field, key: &str) -> FieldCheck<'_> {
    FieldCheck { field, key }
}

impl FieldCheck<'_> {
    pub(super) fn refuse(self, problem: &'static str) -> SpecError {
        SpecError::refused(self.field, self.key, problem)
    }

    pub(super) fn require(self, is_met: bool, problem: &'static str) -> Result<(), SpecError> {
        if is_met { Ok(()) } else { Err(self.refuse(problem)) }
    }

    /// Refuses a NUL, at which the kernel would end the text.
    pub(super) fn text(self, text: &str) -> Result<(), SpecError> {
        self.require(!text.contains('\0'), "the text contains a NUL")
    }

    pub(super) fn texts(self, texts: &[String]) -> Result<(), SpecError> {
        texts.iter().try_for_each(|text| self.text(text))
    }

    /// Requires an absolute path without `..`.
    pub(super) fn path(self, path: &str) -> Result<(), SpecError> {
        self.text(path)?;
        self.require(path.starts_with('/'), "the path is not absolute")?;
        self.require(path.split('/').all(|part| part != ".."), "the path contains `..`")
    }

    pub(super) fn within<T: PartialOrd>(
        self,
        number: &T,
        range: &RangeInclusive<T>,
        problem: &'static str,
    ) -> Result<(), SpecError> {
        self.require(range.contains(number), problem)
    }

    /// Requires a name that the OCI type `T` defines.
    pub(super) fn known<'t, T: Deserialize<'t>>(self, name: &'t str, problem: &'static str) -> Result<(), SpecError> {
        let deserializer: StrDeserializer<'t, Error> = name.into_deserializer();
        self.require(T::deserialize(deserializer).is_ok(), problem)
    }

    /// Returns a list of numbers without surrounding white space. The list has the format of the
    /// kernel, such as `0-3,7` or `0-31:2/4`, and may be empty.
    pub(super) fn number_list(self, list: &str) -> Result<&str, SpecError> {
        let list = list.trim_ascii();
        let is_list = list.is_empty() || list.split(',').all(is_range);
        self.require(is_list, "this is not a list of numbers such as 0-3,7")?;
        Ok(list)
    }
}

fn is_range(range: &str) -> bool {
    let number =
        |text: &str| text.bytes().all(|digit| digit.is_ascii_digit()).then(|| text.parse::<u32>().ok()).flatten();
    let (range, is_grouped) = match range.split_once(':') {
        Some((range, group)) => (
            range,
            group.split_once('/').is_some_and(|(used, of)| {
                number(used).zip(number(of)).is_some_and(|(used, of)| 0 < used && used <= of)
            }),
        ),
        None => (range, true),
    };
    is_grouped
        && match range.split_once('-') {
            Some((first, last)) => number(first).zip(number(last)).is_some_and(|(first, last)| first <= last),
            None => number(range).is_some(),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_what_the_kernel_reads() {
        for list in ["", "0", "0-3,7", "0,0", "0-31:2/4", "4294967295"] {
            assert_eq!(field(Field::CPUSetCPUs, "").number_list(list).unwrap(), list);
        }
        for list in ["a", "0-", "-1", "3-0", "0,,1", "0;1", "+1", "0-31:0/4", "0-31:5/4", "0\n1", "0, 1", "99999999999"]
        {
            assert!(field(Field::CPUSetCPUs, "").number_list(list).is_err(), "{list}");
        }
    }
}
