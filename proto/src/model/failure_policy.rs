//! The declarations of a plugin about its failures.

use super::Unknown;

/// The consequences of a failure of a plugin, as the plugin declares them when it is configured.
///
/// The wire cannot distinguish "false" from "not set". A flag therefore only adds to the policy of
/// the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailurePolicy {
    /// Whether a request fails if the plugin does not reply.
    pub fail_request: bool,
    /// Whether the plugin stays connected after it did not reply in time.
    pub keep_connected: bool,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}
