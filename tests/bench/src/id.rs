//! The ids of pods and containers.

/// Returns an id of sixty-four hexadecimal digits, as runtimes use.
pub(crate) fn id(kind: u8, serial: usize) -> String {
    format!("{kind:02x}{serial:062x}")
}
