//! The effect of an answer, or of its absence, on a plugin.

use std::sync::Arc;

use tokio::time::Instant;
use ttrpc::Code;

use super::PluginSession;
use crate::api::error::Cause;
use crate::api::health::State;
use crate::api::plugin::{PluginError, Reply};
use crate::api::request::Request;
use crate::mistake::Mistake;
use crate::session::call::Answer;
use crate::session::journal::JournalEnd;
use crate::session::open_operation::OpenOperation;

impl PluginSession {
    /// Judges an answer, and adds a request that the plugin did not take to the front of its
    /// journal.
    pub(crate) fn judge_asked(
        self: &Arc<Self>,
        request: &Arc<Request>,
        operation: Option<&Arc<dyn OpenOperation>>,
        begun: Instant,
        is_probe: bool,
        answer: Answer,
    ) -> Result<Reply, Cause> {
        let not_taken = matches!(answer, Err(PluginError::NotTaken));
        let outcome = self.judge(request, begun, is_probe, answer);
        if not_taken {
            self.keep(request, operation, JournalEnd::Front);
        }
        outcome
    }

    /// Updates the health of the plugin for an answer in time, and returns the outcome for the
    /// request.
    pub(crate) fn judge(
        self: &Arc<Self>,
        request: &Arc<Request>,
        begun: Instant,
        is_probe: bool,
        answer: Answer,
    ) -> Result<Reply, Cause> {
        let reason = answer.as_ref().err().map_or_else(String::new, ToString::to_string);
        let outcome = self.update(
            |standing| match answer {
                Ok(reply) => {
                    let is_even = standing.is_even();
                    let is_even = is_even || Mistake::ProbeMakesActive.is_injected();
                    (Ok(reply), standing.health.answered(is_probe, is_even))
                }
                // The plugin's own deadline is the same as ours, so it is chance which side notices
                // the timeout first.
                Err(PluginError::Refused { code: Code::DEADLINE_EXCEEDED, .. } | PluginError::NotTaken) => {
                    (Err(Cause::TimedOut), standing.health.gave_up(Instant::now(), is_probe))
                }
                Err(error @ (PluginError::Refused { .. } | PluginError::TooLarge { .. })) => {
                    let is_even = standing.is_even();
                    (Err(error.into()), standing.health.answered(is_probe, is_even))
                }
                Err(PluginError::Left(_)) => (Err(Cause::PassedOver(State::Closed)), standing.health.close()),
                Err(error @ (PluginError::Gone(_) | PluginError::Breach(_))) => {
                    (Err(error.into()), standing.health.close())
                }
            },
            &reason,
        );
        self.services.watchers.asked(&self.id, request, begun.elapsed(), outcome.as_ref().err());
        outcome
    }

    /// Records that an answer did not come in time. The plugin owes it from now on.
    pub(crate) fn timed_out(self: &Arc<Self>, request: &Arc<Request>, begun: Instant, is_probe: bool) {
        let now = Instant::now();
        self.update(|standing| ((), standing.health.timed_out(now, is_probe)), "it did not answer in time");
        self.services.watchers.asked(&self.id, request, begun.elapsed(), Some(&Cause::TimedOut));
    }

    /// Records another request timeout of silence.
    pub(crate) fn still_silent(self: &Arc<Self>) {
        let now = Instant::now();
        self.update(|standing| ((), standing.health.still_silent(now)), "it was silent for too long");
    }

    /// Records that an overdue answer has come.
    pub(crate) fn settled(self: &Arc<Self>) {
        if self.state() == State::Suspended && Mistake::LateAnswerKeepsSuspended.is_injected() {
            return;
        }
        self.update(
            |standing| {
                let is_even = standing.is_even();
                ((), standing.health.settled(Instant::now(), is_even))
            },
            "",
        );
    }
}
