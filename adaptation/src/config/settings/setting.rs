//! The types of values in a configuration file.

use std::fmt::Debug;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use toml::Value;

use super::duration;

/// A type of value that a configuration file can have.
pub(crate) trait Setting: Sized + Debug {
    /// Reads a value. The error describes the valid values.
    fn read(value: &Value) -> Result<Self, String>;

    /// Returns the value as an operator would write it, without quotes.
    fn show(&self) -> String {
        format!("{self:?}")
    }
}

/// An enum whose variants have names in a configuration file.
pub(crate) trait Choice: Copy + PartialEq + Debug + 'static {
    /// The names and variants.
    const CHOICES: &'static [(&'static str, Self)];
}

impl<T: Choice> Setting for T {
    fn read(value: &Value) -> Result<Self, String> {
        let chosen = T::CHOICES.iter().find(|(word, _)| value.as_str() == Some(word));
        chosen.map(|(_, choice)| *choice).ok_or_else(|| {
            let words: Vec<_> = T::CHOICES.iter().map(|(word, _)| format!("{word:?}")).collect();
            words.join(" or ")
        })
    }

    fn show(&self) -> String {
        let word = T::CHOICES.iter().find(|(_, choice)| choice == self).map(|(word, _)| *word);
        word.unwrap_or_default().to_owned()
    }
}

impl Setting for bool {
    fn read(value: &Value) -> Result<Self, String> {
        value.as_bool().ok_or_else(|| "true or false".to_owned())
    }
}

impl Setting for NonZeroU32 {
    fn read(value: &Value) -> Result<Self, String> {
        let number = value.as_integer().and_then(|number| u32::try_from(number).ok()).and_then(Self::new);
        number.ok_or_else(|| format!("a whole number from 1 to {}", u32::MAX))
    }
}

/// A timeout, from one millisecond to one day. The wire has timeouts in milliseconds, where zero
/// would mean no limit. A day is as good as no limit.
impl Setting for Duration {
    fn read(value: &Value) -> Result<Self, String> {
        let range = Self::from_millis(1)..=Self::from_hours(24);
        let expected = "a duration from \"1ms\" to \"24h\"";
        match duration_of(value) {
            Ok(duration) if range.contains(&duration) => Ok(duration),
            Ok(_) => Err(expected.to_owned()),
            Err(None) => Err(format!("{expected}, as text")),
            Err(Some(error)) => Err(format!("{expected}: {error}")),
        }
    }
}

/// Reads a duration of any length. A bare 0 needs no unit, as in Go.
fn duration_of(value: &Value) -> Result<Duration, Option<duration::DurationError>> {
    match value.as_str() {
        Some(text) => duration::parse(text).map_err(Some),
        None if value.as_integer() == Some(0) => Ok(Duration::ZERO),
        None => Err(None),
    }
}

/// A timeout, for which zero means "not set", as in containerd.
impl Setting for Option<Duration> {
    fn read(value: &Value) -> Result<Self, String> {
        match duration_of(value) {
            Ok(Duration::ZERO) => Ok(None),
            _ => Duration::read(value).map(Some),
        }
    }
}

impl Setting for String {
    fn read(value: &Value) -> Result<Self, String> {
        value.as_str().map(str::to_owned).ok_or_else(|| "text".to_owned())
    }
}

/// A path, for which empty means "not set", as in containerd.
impl Setting for Option<PathBuf> {
    fn read(value: &Value) -> Result<Self, String> {
        let text = value.as_str().ok_or_else(|| "a path, as text".to_owned())?;
        Ok((!text.is_empty()).then(|| PathBuf::from(text)))
    }
}

impl Setting for Vec<String> {
    fn read(value: &Value) -> Result<Self, String> {
        list(value, |item| item.as_str().map(str::to_owned)).ok_or_else(|| "a list of texts".to_owned())
    }
}

impl Setting for Vec<u32> {
    fn read(value: &Value) -> Result<Self, String> {
        list(value, |item| u32::try_from(item.as_integer()?).ok()).ok_or_else(|| "a list of user ids".to_owned())
    }
}

fn list<T>(value: &Value, item: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    value.as_array()?.iter().map(item).collect()
}
