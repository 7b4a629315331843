//! How the wire says that a key is removed: a dash in front of the key.

use super::DashedKey;

const MARKER: char = '-';

/// Refuses a key that would be read as the removal of another one.
pub(crate) fn check(key: &str) -> Result<(), DashedKey> {
    if key.starts_with(MARKER) { Err(DashedKey(key.to_owned())) } else { Ok(()) }
}

/// Returns the key that is to be removed, if `key` says so.
pub(crate) fn removed(key: &str) -> Option<&str> {
    key.strip_prefix(MARKER)
}

/// Returns `key` with the marker in front, which stands for its removal.
pub(crate) fn mark(key: &str) -> String {
    format!("{MARKER}{key}")
}
