//! The wait of a request for required plugins that have yet to receive earlier requests.
//!
//! A plugin that has just joined, or was silent, receives the requests that it missed before new
//! requests ask it. A request that needs the plugin waits for that. It waits before it has the turn
//! of the pod: the plugin may have to receive the outcome of another operation about the pod first,
//! and that operation may need the turn. The time that the request has waited for the plugin to
//! join counts, too.

use std::sync::Arc;
use std::time::Duration;

use nri_proto::Event;
use tokio::time::{Instant, timeout_at};

use crate::api::error::{Cause, Failure, RelayError};
use crate::api::queue::QueueTurn;
use crate::config::policy::Mode;
use crate::operation::relay::Relay;
use crate::session::policy::PluginPolicy;
use crate::session::roster::Participant;

impl Relay {
    /// Waits until all required plugins have received the earlier requests, and returns the turn of
    /// the pod.
    ///
    /// While the request waits, it has no place in the queue of the pod, and requests that need not
    /// wait overtake it. Requests that wait keep their order among themselves.
    ///
    /// # Errors
    ///
    /// A required plugin does not receive the earlier requests in time. No plugin was asked then.
    pub(crate) async fn turn_when_heard(&mut self) -> Result<QueueTurn, RelayError> {
        if self.participants.config().requirements.are_none() {
            return Ok(self.place().turn().await);
        }
        if !self.has_to_wait() {
            let turn = self.place().turn().await;
            if self.behind().is_none() {
                return Ok(turn);
            }
        }
        Box::pin(self.wait_for_turn()).await
    }

    async fn wait_for_turn(&mut self) -> Result<QueueTurn, RelayError> {
        let begun = Instant::now();
        let place = self.shared.waiting.enqueue(Arc::clone(&self.operation.pod_id)).turn();
        tokio::pin!(place);
        let mut had = None;
        loop {
            if had.is_none() {
                // The earlier requests in this queue wait for the same plugins.
                let limit = self.behind().map(|(_, entry)| begun + self.left_to_wait(&entry));
                had = match limit {
                    Some(limit) => timeout_at(limit, &mut place).await.ok(),
                    None => Some(place.as_mut().await),
                };
            }
            while let Some((at, entry)) = self.behind() {
                self.progress.set_current(at);
                let heard = entry.has_heard(self.asked_about(&entry), self.operation.id());
                if timeout_at(begun + self.left_to_wait(&entry), heard).await.is_err() {
                    self.notes.failed(entry.exchange(&self.shown.request, begun.elapsed()), &Cause::Behind);
                    return Err(Failure::new(&entry.id, self.shown.request.event(), Cause::Behind).into());
                }
            }
            self.progress.clear_current();
            let turn = self.place().turn().await;
            if self.behind().is_none() {
                return Ok(turn);
            }
        }
    }

    /// Returns how much longer the request waits for a required plugin.
    fn left_to_wait(&self, entry: &Participant) -> Duration {
        entry.terms.policy().join_timeout.saturating_sub(self.waited)
    }

    /// Returns whether the request has to wait: for a required plugin that is behind, or for
    /// earlier requests about the pod that wait for one. If a plugin waits for the end of this
    /// request's operation, the request does not wait for other requests, so that the operation can
    /// end.
    fn has_to_wait(&self) -> bool {
        let others_wait = || self.shared.waiting.is_busy(&self.operation.pod_id) && self.required().next().is_some();
        self.behind().is_some() || others_wait() && !self.is_waited_for()
    }

    /// Returns whether a plugin waits for the end of the operation that this request belongs to.
    fn is_waited_for(&self) -> bool {
        self.shared.roster().entries().iter().any(|entry| entry.waits_for(self.operation.id()))
    }

    /// Returns the first required plugin that has yet to receive earlier requests, and its place.
    /// An operation does not wait for itself, and a pod that is exempt from required plugins waits
    /// for none.
    fn behind(&self) -> Option<(usize, Participant)> {
        let is_behind = |entry: &Participant| entry.is_behind(self.asked_about(entry), self.operation.id());
        let (place, entry) = self.required().find(|(_, entry)| is_behind(entry))?;
        (!self.is_exempt()).then(|| (place, entry.clone()))
    }

    /// Returns the pod that the request asks a plugin about. Returns `None` for a plugin that only
    /// validates: its verdict depends on the validation request alone.
    fn asked_about(&self, entry: &Participant) -> Option<&str> {
        let is_asked = entry.terms.is_asked(self.shown.request.event(), &self.operation.pod.namespace);
        is_asked.then_some(&*self.operation.pod_id)
    }

    /// Returns the required plugins that the request asks, or that validate its result, each with
    /// its place.
    fn required(&self) -> impl Iterator<Item = (usize, &Participant)> {
        let (event, namespace) = (self.shown.request.event(), &*self.operation.pod.namespace);
        let is_needed = move |terms: &PluginPolicy| {
            let policy = terms.policy();
            let validates =
                event == Event::CreateContainer && terms.is_asked(Event::ValidateContainerAdjustment, namespace);
            policy.required && policy.mode == Mode::Enforce && (terms.is_asked(event, namespace) || validates)
        };
        let entries = self.participants.entries().iter().enumerate();
        entries.filter(move |(_, entry)| is_needed(&entry.terms))
    }
}
