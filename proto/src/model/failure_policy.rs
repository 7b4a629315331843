use super::Unknown;

/// What a plugin declares about its own failures when it is configured.
///
/// The wire cannot tell "no" from "not said", so a flag only ever adds to what the operator says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailurePolicy {
    /// A request that it does not answer fails.
    pub fail_request: bool,
    /// It stays connected although it did not answer in time.
    pub keep_connected: bool,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}
