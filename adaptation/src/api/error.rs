//! Why a request was not answered as it should have been, and by whom.

use std::error::Error;
use std::fmt::{self, Display, Formatter};

use nri_proto::quote::quoted;
use nri_proto::{Event, PluginId};

use crate::api::health::State;
use crate::api::plugin::PluginError;
use crate::config::policy::NotAllowed;
use crate::merge::{MergeError, MergedStop};

/// Why a plugin has no say in a request.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Cause {
    /// It answered no, or could not be asked.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// It did not answer in time.
    #[error("no answer in time")]
    TimedOut,
    /// It was passed over, because of the state it is in.
    #[error("the plugin is {_0}{why}", why = why(*_0))]
    PassedOver(State),
    /// The plugin was passed over: it joined, was silent or was suspended, and has yet to hear what
    /// it missed.
    #[error("the plugin is catching up: it has yet to hear what it missed")]
    CatchingUp,
    /// Others were asked of it for so long that its turn did not come.
    #[error("its turn did not come in time")]
    Busy,
    /// It has yet to hear what was before, as it has just joined or was silent, and that waits for
    /// an operation to end.
    #[error("it has yet to hear what was before")]
    Behind,
    /// Other plugins had not answered for so long that the request did not wait for this one as
    /// long as it may take, or did not ask it at all. It is no strike by itself.
    #[error("the time that the request could wait for it was over")]
    CutShort,
    /// It wants what it may not do.
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    /// The operator requires it, and it is not there.
    #[error("the plugin is required, and not here: start it, or exempt the pod (required_exempt_namespaces)")]
    Absent,
    /// The caller's own deadline was over while it was asked.
    #[error("the caller's deadline was over while it was asked")]
    CallerDeadline,
}

impl Cause {
    /// Whether it said no, or wants what it may not do.
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

    /// Whether the time that a request waited for the plugin was spent in silence, on the answer or
    /// on the lane.
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

    /// Whether the caller's own deadline was over.
    #[must_use]
    pub fn is_deadline(&self) -> bool {
        matches!(self, Self::CallerDeadline)
    }

    /// Whether it was not there to answer: it is absent, silent, suspended, behind or gone, or has
    /// not answered in time.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        !self.is_refusal() && !self.is_deadline()
    }
}

/// What has made a plugin so, for whoever hears of it without its log.
fn why(state: State) -> &'static str {
    match state {
        State::Silent => ": it has yet to answer an earlier request",
        State::Suspended => ": it was silent too often",
        State::Active | State::Closed => "",
    }
}

/// A plugin that failed a request.
#[derive(Clone, Debug, thiserror::Error)]
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
#[derive(Clone, Debug, thiserror::Error)]
pub enum RelayError {
    /// A plugin failed it. Where the whole chain is told in any case, others may have, too: they
    /// are logged.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// Plugins want contrary things.
    #[error(transparent)]
    Contrary(#[from] MergeError),
    /// A validator does not accept what plugins want.
    #[error("validator {} rejected container adjustment, reason: {reason}", quoted(validator))]
    Rejected {
        /// The validator.
        validator: String,
        /// Why.
        reason: String,
    },
    /// A validator has not said whether it accepts what plugins want. Without its word nothing may
    /// be.
    #[error("validator plugin {plugin} failed")]
    Validator {
        /// The validator.
        plugin: PluginId,
        /// Why.
        #[source]
        cause: Cause,
    },
    /// The caller's deadline was over before a plugin was asked.
    #[error("the deadline was over before any plugin could be asked")]
    Deadline,
    /// The adaptation was stopped.
    #[error("NRI was stopped")]
    Stopped,
}

impl RelayError {
    /// Whether plugins do not want it: one said no, wants what it may not do or what another one
    /// does not, or a validator does not accept it. To try again is of no use unless something
    /// changes.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Contrary(_) | Self::Rejected { .. } => true,
            Self::Failed(Failure { cause, .. }) | Self::Validator { cause, .. } => cause.is_refusal(),
            Self::Deadline | Self::Stopped => false,
        }
    }

    /// Whether a plugin that is not to be passed over was not there to answer: absent, joining,
    /// silent, suspended or gone, or it has not answered in time. It may be there later.
    #[must_use]
    pub fn is_plugin_absent(&self) -> bool {
        match self {
            Self::Failed(Failure { cause, .. }) | Self::Validator { cause, .. } => cause.is_absence(),
            Self::Contrary(_) | Self::Rejected { .. } | Self::Deadline | Self::Stopped => false,
        }
    }

    /// Whether the caller's own deadline was over.
    #[must_use]
    pub fn is_deadline(&self) -> bool {
        match self {
            Self::Deadline => true,
            Self::Failed(Failure { cause, .. }) | Self::Validator { cause, .. } => cause.is_deadline(),
            Self::Contrary(_) | Self::Rejected { .. } | Self::Stopped => false,
        }
    }
}

/// Why the end of a container was not told as it should have been, and what comes of it all the
/// same.
#[derive(Clone, Debug)]
pub struct StopError {
    /// What the plugins want that did not fail.
    pub merged: MergedStop,
    /// Why.
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

    /// What an error of a plugin with this cause is.
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
