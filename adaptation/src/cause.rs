//! Why a request was not answered as it should have been, and by whom.

use nri_proto::{Event, PluginId};
use thiserror::Error;

use crate::health::State;
use crate::plugin::PluginError;

/// Why a plugin has no say in a request.
#[derive(Clone, Debug, Error)]
pub enum Cause {
    /// It answered no, or could not be asked.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// It did not answer in time.
    #[error("no answer in time")]
    TimedOut,
    /// It was passed over, because of the state it is in.
    #[error("the plugin is {0}")]
    PassedOver(State),
    /// Others were asked of it for so long that its turn did not come.
    #[error("its turn did not come in time")]
    Busy,
    /// The operator requires it, and it is not there.
    #[error("the plugin is required, and not here")]
    Absent,
    /// The caller's own deadline was over while it was asked.
    #[error("the caller's deadline was over while it was asked")]
    CallerDeadline,
}

/// A plugin that failed a request.
#[derive(Clone, Debug, Error)]
#[error("plugin {plugin} failed to handle {} request", event.rpc())]
pub struct Failure {
    /// The plugin. A required one that is absent may have no index.
    pub plugin: String,
    /// The event it was asked about.
    pub event: Event,
    /// Why.
    #[source]
    pub cause: Cause,
}

impl Failure {
    pub(crate) fn new(plugin: &PluginId, event: Event, cause: Cause) -> Self {
        Self { plugin: plugin.to_string(), event, cause }
    }
}

/// Why a request failed.
#[derive(Clone, Debug, Error)]
pub enum RelayError {
    /// A plugin failed it. Where the whole chain is told in any case, others may have, too: they are logged.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The caller's deadline was over before a plugin was asked.
    #[error("the deadline was over before any plugin could be asked")]
    Deadline,
    /// The adaptation was stopped.
    #[error("NRI was stopped")]
    Stopped,
}
