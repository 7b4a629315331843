use nri_proto::call::CallError;
use nri_proto::mux::Closed;
use thiserror::Error;

use super::identity::IdentityError;
use crate::connection::ConnectError;

/// Why a plugin cannot be started, whatever the runtime does.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// It has no name.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// It wants to hear of nothing.
    #[error("could not start the plugin: it subscribes to no event, which to the protocol means all of them")]
    NoEvents,
}

/// Why a plugin ended.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// It could not be started.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// There is no connection to a runtime.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The runtime did not let it in.
    #[error("could not register with the runtime")]
    Register(#[source] CallError),
    /// The runtime let it in and did not go on.
    #[error("the runtime did not configure the plugin in time")]
    NotConfigured,
    /// The runtime configured it and did not tell what there is.
    #[error("the runtime did not synchronize the plugin in time")]
    NotSynchronized,
    /// It refused its configuration.
    #[error("the plugin refused its configuration: {0}")]
    Configure(String),
    /// The runtime left while it let the plugin in.
    #[error("the runtime left before it had {step} the plugin")]
    LeftEarly {
        /// What it had not done.
        step: &'static str,
        /// Why the connection ended.
        source: Closed,
    },
    /// The runtime left.
    #[error("the connection to the runtime was lost")]
    Lost(#[source] Closed),
}
