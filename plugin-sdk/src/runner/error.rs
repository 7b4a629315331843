//! The errors of running a plugin.

use nri_proto::call::CallError;
use nri_proto::mux::Closed;
use thiserror::Error;

use super::identity::IdentityError;
use crate::connection::ConnectError;

/// Errors from checking the options of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// The plugin has no valid index and name.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The plugin subscribes to no events.
    #[error("could not start the plugin: it subscribes to no events, which the protocol takes for all events")]
    NoEvents,
}

/// Errors from running a plugin.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The options are invalid.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// Connecting to the runtime failed.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The runtime refused the registration, or did not reply to it.
    #[error("could not register with the runtime")]
    Register(#[source] CallError),
    /// The runtime registered the plugin, but did not configure it in time.
    #[error("the runtime did not configure the plugin in time")]
    NotConfigured,
    /// The runtime configured the plugin, but did not synchronize it in time.
    #[error("the runtime did not synchronize the plugin in time")]
    NotSynchronized,
    /// The plugin refused its configuration, with this message.
    #[error("the plugin refused its configuration: {0}")]
    Configure(String),
    /// The runtime disconnected before the plugin was configured and synchronized.
    #[error("the runtime left before it had {step} the plugin")]
    LeftEarly {
        /// The step that is missing: `configured` or `synchronized`.
        step: &'static str,
        /// The reason why the connection ended.
        source: Closed,
    },
    /// The runtime disconnected without announcing a shutdown.
    #[error("the connection to the runtime was lost")]
    Lost(#[source] Closed),
}
