//! Errors of a request, and the plugin that caused each of them.

use std::error::Error;
use std::fmt::{self, Display, Formatter};

use nri_proto::quote::quoted;
use nri_proto::{Event, PluginId};

use crate::api::health::State;
use crate::api::plugin::PluginError;
use crate::config::policy::NotAllowed;
use crate::merge::{MergeError, MergedStop};

/// Why a plugin did not answer a request as required.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Cause {
    /// The plugin refused the request, or its connection failed.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// The plugin did not answer in time.
    #[error("no answer in time")]
    TimedOut,
    /// The plugin was skipped because of its health state.
    #[error("the plugin is {_0}{why}", why = why(*_0))]
    PassedOver(State),
    /// The plugin was skipped because it is catching up: it joined, was silent or was suspended,
    /// and earlier events are still to be delivered to it.
    #[error("the plugin is catching up: it has not received all events that it missed")]
    CatchingUp,
    /// The plugin was busy with other requests until the lane timeout expired.
    #[error("the plugin was busy with other requests until lane_timeout expired")]
    Busy,
    /// The plugin just joined or was silent, and earlier events about the pod could not be
    /// delivered to it in time. They may wait for an open operation to end.
    #[error("the plugin has not received earlier events about the pod")]
    Behind,
    /// Plugins that did not answer have used up the time budget of the request. The request waited
    /// for this plugin less than its request timeout, or skipped it. Not a strike by itself.
    #[error("silent plugins have used up the time of the request (request_budget)")]
    CutShort,
    /// The policy does not permit what the plugin asked for.
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    /// The operator requires the plugin, and it is absent.
    #[error("the plugin is required and absent: start it, or exempt the pod (required_exempt_namespaces)")]
    Absent,
    /// The deadline of the caller expired while the plugin was asked.
    #[error("the caller's deadline expired while the plugin was asked")]
    CallerDeadline,
}

impl Cause {
    /// Returns whether the plugin refused the request, or asked for something that its policy does
    /// not permit. A request that is too large to send counts as refused.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Plugin(error) => matches!(error, PluginError::Refused { .. } | PluginError::TooLarge { .. }),
            Self::NotAllowed(_) => true,
            Self::TimedOut
            | Self::PassedOver(_)
            | Self::CatchingUp
            | Self::Busy
            | Self::Behind
            | Self::CutShort
            | Self::Absent
            | Self::CallerDeadline => false,
        }
    }

    /// Returns whether the request waited for the plugin without an answer, be it for the reply or
    /// for the lane.
    pub(crate) fn is_unanswered(&self) -> bool {
        match self {
            Self::TimedOut
            | Self::CutShort
            | Self::PassedOver(_)
            | Self::CatchingUp
            | Self::Busy
            | Self::Behind
            | Self::Plugin(PluginError::Gone(_) | PluginError::Left(_) | PluginError::NotTaken) => true,
            Self::Plugin(PluginError::Refused { .. } | PluginError::Breach(_) | PluginError::TooLarge { .. })
            | Self::NotAllowed(_)
            | Self::Absent
            | Self::CallerDeadline => false,
        }
    }

    /// Returns whether the deadline of the caller expired.
    #[must_use]
    pub fn is_deadline(&self) -> bool {
        matches!(self, Self::CallerDeadline)
    }

    /// Returns whether the plugin was unavailable: absent, silent, suspended, behind or
    /// disconnected, or without an answer in time.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        !self.is_refusal() && !self.is_deadline()
    }
}

/// Returns an explanation of a health state, for readers who do not have the log.
fn why(state: State) -> &'static str {
    match state {
        State::Silent => ": it has yet to answer an earlier request",
        State::Suspended => ": it was silent too often",
        State::Active | State::Closed => "",
    }
}

/// A request that failed because of one plugin.
#[derive(Clone, Debug, thiserror::Error)]
#[error("plugin {plugin} failed to handle {} request", event.rpc())]
pub struct Failure {
    /// The name of the plugin. A required plugin that is absent may lack the index.
    pub plugin: String,
    /// The event of the request.
    pub event: Event,
    /// Why the request failed.
    #[source]
    pub cause: Cause,
}

impl Failure {
    pub(crate) fn new(plugin: &PluginId, event: Event, cause: Cause) -> Self {
        Self { plugin: plugin.to_string(), event, cause }
    }
}

/// Why a request failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RelayError {
    /// A plugin failed the request. If the request was sent to all plugins regardless, other
    /// plugins may have failed too; their errors are logged.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The replies of two plugins conflict.
    #[error(transparent)]
    Contrary(#[from] MergeError),
    /// A validator rejected the merged adjustments of the plugins.
    #[error("validator {} rejected container adjustment, reason: {reason}", quoted(validator))]
    Rejected {
        /// The name of the validator.
        validator: String,
        /// The reason that the validator gave.
        reason: String,
    },
    /// A validator gave no verdict. The container is not created without its verdict.
    #[error("validator plugin {plugin} failed")]
    Validator {
        /// The id of the validator.
        plugin: PluginId,
        /// Why the validator gave no verdict.
        #[source]
        cause: Cause,
    },
    /// The deadline of the caller expired before a plugin was asked.
    #[error("the caller's deadline expired before any plugin was asked")]
    Deadline,
    /// The adaptation was stopped.
    #[error("NRI was stopped")]
    Stopped,
}

impl RelayError {
    /// Returns whether plugins reject the request: a plugin refused it or asked for something that
    /// its policy does not permit, two plugins conflict, or a validator rejected the result. A
    /// retry is useless unless something changes.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Contrary(_) | Self::Rejected { .. } => true,
            Self::Failed(Failure { cause, .. }) | Self::Validator { cause, .. } => cause.is_refusal(),
            Self::Deadline | Self::Stopped => false,
        }
    }

    /// Returns whether a plugin that must not be skipped was unavailable: absent, joining, silent,
    /// suspended or disconnected, or without an answer in time. A retry may succeed later.
    #[must_use]
    pub fn is_plugin_absent(&self) -> bool {
        match self {
            Self::Failed(Failure { cause, .. }) | Self::Validator { cause, .. } => cause.is_absence(),
            Self::Contrary(_) | Self::Rejected { .. } | Self::Deadline | Self::Stopped => false,
        }
    }

    /// Returns whether the deadline of the caller expired.
    #[must_use]
    pub fn is_deadline(&self) -> bool {
        match self {
            Self::Deadline => true,
            Self::Failed(Failure { cause, .. }) | Self::Validator { cause, .. } => cause.is_deadline(),
            Self::Contrary(_) | Self::Rejected { .. } | Self::Stopped => false,
        }
    }
}

/// The error of a container stop, with the merged result of the plugins that did not fail.
#[derive(Clone, Debug)]
pub struct StopError {
    /// The merged replies of the plugins that did not fail.
    pub merged: MergedStop,
    /// Why the request failed.
    pub cause: RelayError,
}

impl Display for StopError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl Error for StopError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the kind of the errors with this cause.
    fn check(cause: Cause, expected: &str) {
        let failure = Failure { plugin: "10-a".to_owned(), event: Event::StartContainer, cause: cause.clone() };
        let validator = RelayError::Validator { plugin: "10-a".parse().unwrap(), cause };
        for error in [failure.into(), validator] {
            assert_eq!(kind(&error), expected, "{error:?}");
        }
    }

    fn kind(error: &RelayError) -> String {
        let kinds =
            [("refusal", error.is_refusal()), ("absent", error.is_plugin_absent()), ("deadline", error.is_deadline())];
        kinds.into_iter().filter(|(_, is_so)| *is_so).map(|(kind, _)| kind).collect()
    }

    #[test]
    fn a_refusal_an_absent_plugin_and_a_deadline_are_told_apart() {
        check(PluginError::refused("no").into(), "refusal");
        check(PluginError::TooLarge { size: 2, limit: 1 }.into(), "refusal");
        check(PluginError::Breach("it is broken").into(), "absent");
        check(PluginError::NotTaken.into(), "absent");
        for state in [State::Silent, State::Suspended, State::Closed] {
            check(Cause::PassedOver(state), "absent");
        }
        for cause in [Cause::Absent, Cause::TimedOut, Cause::Behind, Cause::Busy] {
            check(cause, "absent");
        }
        check(Cause::CallerDeadline, "deadline");
        let rejected = RelayError::Rejected { validator: "10-a".to_owned(), reason: "no".to_owned() };
        assert_eq!(
            [kind(&rejected), kind(&RelayError::Deadline), kind(&RelayError::Stopped)],
            ["refusal", "deadline", ""]
        );
    }
}
