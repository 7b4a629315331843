//! The ids of pods and containers.

/// Sixty-four hexadecimal digits, as runtimes make them.
pub(crate) fn id(kind: u8, serial: usize) -> String {
    format!("{kind:02x}{serial:062x}")
}
