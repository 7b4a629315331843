//! A call to a plugin that has no answer yet, whether or not anyone waits for the answer.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::time::{Instant, timeout_at};

use crate::api::error::Cause;
use crate::api::health::State;
use crate::api::plugin::{PluginError, Reply};
use crate::api::request::Request;
use crate::events::Happening;
use crate::session::journal::JournalEnd;
use crate::session::late::LateAnswer;
use crate::session::open_operation::OpenOperation;
use crate::session::policy::PluginPolicy;
use crate::session::{Lane, PluginSession};

/// The result of a call to a plugin.
pub(crate) type Answer = Result<Reply, PluginError>;

type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A call to a plugin, and the lane that the call occupies.
///
/// If this value is dropped before the answer came, a task continues the call: the plugin is judged
/// by its answer, and the lane stays occupied until then.
pub(crate) struct CallInFlight(Option<PendingCall>);

struct PendingCall {
    entry: Arc<PluginSession>,
    /// The policy under which the plugin is asked.
    terms: Arc<PluginPolicy>,
    request: Arc<Request>,
    /// The operation of the request. `None` if the request is delivered from the journal.
    operation: Option<Arc<dyn OpenOperation>>,
    answering: Answering,
    begun: Instant,
    is_probe: bool,
    _lane: Lane,
}

impl CallInFlight {
    /// Begins to ask the plugin.
    pub(crate) fn begin(
        entry: Arc<PluginSession>,
        terms: Arc<PluginPolicy>,
        request: Arc<Request>,
        operation: Option<Arc<dyn OpenOperation>>,
        lane: Lane,
        is_probe: bool,
    ) -> Self {
        let answering = answering(&entry, &terms, &request);
        Self(Some(PendingCall {
            entry,
            terms,
            request,
            operation,
            answering,
            begun: Instant::now(),
            is_probe,
            _lane: lane,
        }))
    }

    /// Returns the time after which the answer is late.
    pub(crate) fn deadline(&self) -> Instant {
        self.0.as_ref().expect(HELD).deadline()
    }

    /// Returns the future of the answer, which may also complete after the deadline.
    pub(crate) fn answer(&mut self) -> &mut Answering {
        &mut self.0.as_mut().expect(HELD).answering
    }

    /// Ends the call after its answer has come and was judged.
    pub(crate) fn finish(mut self) {
        self.0 = None;
    }

    /// Lets a task wait for an answer that did not come in time. The plugin was judged for the
    /// timeout already.
    pub(crate) fn linger(mut self) {
        let owed = self.0.take().expect(HELD);
        let services = Arc::clone(&owed.entry.services);
        services.spawn(owed.late());
    }
}

const HELD: &str = "it is held until it is finished or lingers";

impl Drop for CallInFlight {
    fn drop(&mut self) {
        if let Some(owed) = self.0.take() {
            let services = Arc::clone(&owed.entry.services);
            services.spawn(owed.left_alone());
        }
    }
}

/// Asks a plugin. A panic of the plugin's code counts as a breach of the protocol.
fn answering(entry: &PluginSession, terms: &PluginPolicy, request: &Arc<Request>) -> Answering {
    let progress = Arc::clone(&entry.plugin).ask(Arc::clone(request), terms.policy().request_timeout);
    let panicked = |_| Err(PluginError::Breach("it panicked"));
    Box::pin(AssertUnwindSafe(progress).catch_unwind().map(move |answer| answer.unwrap_or_else(panicked)))
}

impl PendingCall {
    fn deadline(&self) -> Instant {
        self.begun + self.terms.policy().request_timeout
    }

    /// Waits for the answer until the deadline. Returns `None` if the plugin is closed before, and
    /// `Some(None)` if no answer came in time.
    async fn in_time(&mut self) -> Option<Option<Answer>> {
        let deadline = self.deadline();
        tokio::select! {
            biased;
            answer = timeout_at(deadline, &mut self.answering) => Some(answer.ok()),
            () = self.entry.closed.cancelled() => None,
        }
    }

    /// Continues a call whose caller has left. The plugin is judged as if the caller still waited.
    /// A failure is recorded in the ledger, and an answer is handled as a late answer.
    async fn left_alone(mut self) {
        match self.in_time().await {
            None => self.record_failed(&Cause::PassedOver(State::Closed)),
            Some(Some(answer)) => {
                let Self { entry, request, operation, begun, is_probe, .. } = &self;
                match entry.judge_asked(request, operation.as_ref(), *begun, *is_probe, answer) {
                    Ok(reply) => self.answered_late(reply).apply_later(),
                    Err(cause) => self.record_failed(&cause),
                }
            }
            Some(None) => {
                self.entry.timed_out(&self.request, self.begun, self.is_probe);
                self.record_failed(&Cause::TimedOut);
                self.late().await;
            }
        }
    }

    fn record_failed(&self, cause: &Cause) {
        let Self { entry, terms, request, begun, .. } = self;
        entry.services.records.failed(&entry.occasion(terms, request, Some(begun.elapsed())), cause);
    }

    /// Waits for a late answer, and counts each further interval of silence as a possible strike.
    async fn late(mut self) {
        let interval = self.terms.policy().request_timeout;
        let answer = loop {
            tokio::select! {
                biased;
                () = self.entry.closed.cancelled() => return,
                answer = &mut self.answering => break answer,
                () = tokio::time::sleep(interval) => self.entry.still_silent(),
            }
        };
        let took = self.begun.elapsed();
        let Self { entry, request, operation, .. } = &self;
        if !entry.was_dismissed() {
            entry.services.watchers.tell(Happening::Late { plugin: entry.id.clone(), event: request.event(), took });
        }
        let mut late = None;
        match answer {
            Ok(reply) => late = Some(reply),
            Err(error @ (PluginError::Left(_) | PluginError::Gone(_) | PluginError::Breach(_))) => {
                entry.close(&error.to_string())
            }
            // The plugin did not take the request, so the request goes to the front of the journal.
            Err(PluginError::NotTaken) => entry.keep(request, operation.as_ref(), JournalEnd::Front),
            Err(error @ (PluginError::Refused { .. } | PluginError::TooLarge { .. })) => {
                self.record_failed(&error.into());
            }
        }
        entry.settled();
        if let Some(reply) = late {
            self.answered_late(reply).apply_later();
        }
    }

    /// Returns the answer as a late answer: the request was decided without it. Releases the lane,
    /// so that other requests can ask the plugin.
    fn answered_late(self, reply: Reply) -> LateAnswer {
        let Self { entry, terms, request, operation, answering: _, begun, is_probe: _, _lane: _ } = self;
        let (took, arrived) = (Some(begun.elapsed()), entry.services.update_log.arrive());
        LateAnswer { entry, terms, request, operation, took, arrived, reply }
    }
}

/// Delivers one request of the backlog to a plugin, and judges the plugin by the answer.
pub(crate) async fn deliver(entry: Arc<PluginSession>, request: Arc<Request>, is_probe: bool) {
    let Some(lane) = entry.lane_for_delivery(&request, is_probe).await else { return };
    let terms = entry.terms();
    let answering = answering(&entry, &terms, &request);
    let begun = Instant::now();
    let mut owed = PendingCall {
        entry: Arc::clone(&entry),
        terms,
        request: Arc::clone(&request),
        operation: None,
        answering,
        begun,
        is_probe,
        _lane: lane,
    };
    let Some(answer) = owed.in_time().await else { return };
    let Some(answer) = answer else {
        entry.timed_out(&request, begun, is_probe);
        entry.delivered(&request);
        return owed.late().await;
    };
    let is_taken = !matches!(answer, Err(PluginError::NotTaken));
    if !is_taken {
        entry.keep(&request, None, JournalEnd::Front);
    }
    let outcome = entry.judge(&request, begun, is_probe, answer);
    match outcome {
        Ok(reply) => LateAnswer { took: None, ..owed.answered_late(reply) }.apply_soon().await,
        Err(cause) if is_taken => owed.record_failed(&cause),
        Err(_) => _ = entry.pause().await,
    }
    entry.delivered(&request);
}
