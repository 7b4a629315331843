//! The versions of NRI that peers implement.
//!
//! Since NRI 0.12, runtime and plugin exchange their versions. They are for information only:
//! nothing depends on them. For an older runtime the version can be [inferred](of_runtime) from the
//! runtime's name and release.

mod runtimes;
#[cfg(test)]
mod tests;

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

pub use self::runtimes::{InferVersionError, of_runtime};
use crate::text::quote::quoted;

/// The version of NRI that this crate implements, and sends to its peers.
pub const NRI: &str = "v0.12.5";

/// The version that a peer sends if it could not find out its own.
pub const UNKNOWN: &str = "0.0.0-unknown";

/// The version that a peer sends if it was built inside of the upstream repository.
pub const DEVEL: &str = "(devel)";

/// Returns whether a peer's version is an actual version, and not a placeholder.
pub fn is_known(version: &str) -> bool {
    !matches!(version, "" | UNKNOWN | DEVEL)
}

/// A semantic version as Go modules write it: `v1.2.3-rc.1+build`, or `v1` and `v1.2` for short.
///
/// Build metadata, after the plus, is not kept. To order versions that may be invalid, compare
/// `parse().ok()`: invalid versions come before all others, as upstream.
///
/// ```
/// use nri_proto::version::Version;
///
/// let version: Version = "v1.7".parse()?;
/// assert_eq!(version.to_string(), "v1.7.0");
/// assert!(version > "v1.7.0-rc.2".parse()?);
/// assert!("1.7.0".parse::<Version>().is_err());
/// # Ok::<(), nri_proto::version::ParseVersionError>(())
/// ```
// The semver crate accepts neither short forms nor numbers beyond 64 bits. The derived order of
// versions follows from the order of the fields and variants below.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    core: [Number; 3],
    stage: ReleaseStage,
}

/// The text is not a semantic version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid version {}", quoted(.0))]
pub struct ParseVersionError(pub String);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum ReleaseStage {
    PreRelease(Vec<Identifier>),
    Released,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Identifier {
    Number(Number),
    Text(String),
}

/// A number of any length. It has no leading zeros, so the number with more digits is greater.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Number {
    len: usize,
    digits: String,
}

impl Version {
    /// Returns the version without the suffix that `git describe` appends to builds after a
    /// release.
    ///
    /// With this suffix, as in `v2.2.0-225-ge9dc15b7a.m`, the version would sort before the
    /// release.
    #[must_use]
    pub fn without_git_suffix(self) -> Self {
        match self.stage {
            ReleaseStage::PreRelease(identifiers) if is_git_suffix(&identifiers) => {
                Self { stage: ReleaseStage::Released, ..self }
            }
            stage @ (ReleaseStage::PreRelease(_) | ReleaseStage::Released) => Self { stage, ..self },
        }
    }
}

fn is_git_suffix(identifiers: &[Identifier]) -> bool {
    let Some(Identifier::Text(text)) = identifiers.first() else { return false };
    let Some((commits, hash)) = text.split_once("-g") else { return false };
    commits.parse::<u64>().is_ok() && u64::from_str_radix(hash, 16).is_ok()
}

impl FromStr for Version {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| ParseVersionError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Version> {
    let text = text.strip_prefix('v')?;
    let (text, build) = split(text, '+');
    let (core, stage) = split(text, '-');
    if let Some(build) = build {
        build.split('.').try_for_each(|identifier| is_identifier(identifier).then_some(()))?;
    }
    let stage = match stage {
        Some(identifiers) => {
            ReleaseStage::PreRelease(identifiers.split('.').map(Identifier::parse).collect::<Option<_>>()?)
        }
        None => ReleaseStage::Released,
    };
    let mut numbers = core.split('.').map(Number::parse).collect::<Option<Vec<_>>>()?;
    if numbers.len() < 3 && (build.is_some() || stage != ReleaseStage::Released) {
        return None;
    }
    numbers.resize(numbers.len().max(3), Number::zero());
    Some(Version { core: numbers.try_into().ok()?, stage })
}

fn split(text: &str, separator: char) -> (&str, Option<&str>) {
    text.split_once(separator).map_or((text, None), |(before, after)| (before, Some(after)))
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl Identifier {
    fn parse(text: &str) -> Option<Self> {
        if is_number(text) {
            Number::parse(text).map(Self::Number)
        } else {
            is_identifier(text).then(|| Self::Text(text.to_owned()))
        }
    }
}

impl Number {
    fn parse(digits: &str) -> Option<Self> {
        let leads_with_zero = digits.len() > 1 && digits.starts_with('0');
        (is_number(digits) && !leads_with_zero).then(|| Self { len: digits.len(), digits: digits.to_owned() })
    }

    fn zero() -> Self {
        Self { len: 1, digits: "0".to_owned() }
    }
}

impl Display for Version {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = &self.core;
        write!(f, "v{major}.{minor}.{patch}")?;
        if let ReleaseStage::PreRelease(identifiers) = &self.stage {
            for (i, identifier) in identifiers.iter().enumerate() {
                write!(f, "{}{identifier}", if i == 0 { '-' } else { '.' })?;
            }
        }
        Ok(())
    }
}

impl Display for Identifier {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl Display for Number {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.digits.fmt(f)
    }
}
