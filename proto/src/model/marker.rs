//! The marker of removals on the wire: a dash in front of a key.

use super::DashedKey;

const MARKER: char = '-';

/// Fails if `key` would be read as the removal of another key.
pub(crate) fn check(key: &str) -> Result<(), DashedKey> {
    if key.starts_with(MARKER) { Err(DashedKey(key.to_owned())) } else { Ok(()) }
}

/// Returns the key that is removed, if `key` has the marker in front.
pub(crate) fn removed(key: &str) -> Option<&str> {
    key.strip_prefix(MARKER)
}

/// Returns `key` with the marker in front.
pub(crate) fn mark(key: &str) -> String {
    format!("{MARKER}{key}")
}
