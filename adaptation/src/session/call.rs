//! A plugin that was asked and has not answered yet, whether or not anyone waits for it.

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
use crate::session::journal::End;
use crate::session::late::LateAnswer;
use crate::session::open_operation::OpenOperation;
use crate::session::policy::PluginPolicy;
use crate::session::{Lane, PluginSession};

/// What a plugin says.
pub(crate) type Answer = Result<Reply, PluginError>;

type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// An answer that is owed, and the lane that it occupies.
///
/// Dropped before the answer came, it goes on in a task: the plugin has been asked, it is judged
/// by its answer, and until then nobody else asks it.
pub(crate) struct CallInFlight(Option<Owed>);

struct Owed {
    entry: Arc<PluginSession>,
    /// The terms on which it is asked.
    terms: Arc<PluginPolicy>,
    request: Arc<Request>,
    /// The operation that it is asked in, unless it is told what it missed.
    operation: Option<Arc<dyn OpenOperation>>,
    answering: Answering,
    begun: Instant,
    is_trial: bool,
    _lane: Lane,
}

impl CallInFlight {
    /// Begins to ask.
    pub(crate) fn begin(
        entry: Arc<PluginSession>,
        terms: Arc<PluginPolicy>,
        request: Arc<Request>,
        operation: Option<Arc<dyn OpenOperation>>,
        lane: Lane,
        is_trial: bool,
    ) -> Self {
        let answering = answering(&entry, &terms, &request);
        Self(Some(Owed { entry, terms, request, operation, answering, begun: Instant::now(), is_trial, _lane: lane }))
    }

    /// When the answer is late.
    pub(crate) fn deadline(&self) -> Instant {
        self.0.as_ref().expect(HELD).deadline()
    }

    /// The answer, however late.
    pub(crate) fn answer(&mut self) -> &mut Answering {
        &mut self.0.as_mut().expect(HELD).answering
    }

    /// It has come, and was judged.
    pub(crate) fn finish(mut self) {
        self.0 = None;
    }

    /// It has not come in time, and was judged for that.
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

/// Asks a plugin. A plugin that panics has broken the protocol.
fn answering(entry: &PluginSession, terms: &PluginPolicy, request: &Arc<Request>) -> Answering {
    let progress = Arc::clone(&entry.plugin).ask(Arc::clone(request), terms.policy().request_timeout);
    let panicked = |_| Err(PluginError::Breach("it panicked"));
    Box::pin(AssertUnwindSafe(progress).catch_unwind().map(move |answer| answer.unwrap_or_else(panicked)))
}

impl Owed {
    fn deadline(&self) -> Instant {
        self.begun + self.terms.policy().request_timeout
    }

    /// The answer if it is in time. Nothing else matters once the plugin is closed.
    async fn in_time(&mut self) -> Option<Option<Answer>> {
        let deadline = self.deadline();
        tokio::select! {
            biased;
            answer = timeout_at(deadline, &mut self.answering) => Some(answer.ok()),
            () = self.entry.closed.cancelled() => None,
        }
    }

    /// The caller has left. The plugin is judged as if it had not, and nobody is there to be told
    /// but whoever reads the ledger.
    async fn left_alone(mut self) {
        match self.in_time().await {
            None => self.record_failed(&Cause::PassedOver(State::Closed)),
            Some(Some(answer)) => {
                let Self { entry, request, operation, begun, is_trial, .. } = &self;
                match entry.judge_asked(request, operation.as_ref(), *begun, *is_trial, answer) {
                    Ok(reply) => self.answered_late(reply).apply_later(),
                    Err(cause) => self.record_failed(&cause),
                }
            }
            Some(None) => {
                self.entry.timed_out(&self.request, self.begun, self.is_trial);
                self.record_failed(&Cause::TimedOut);
                self.late().await;
            }
        }
    }

    fn record_failed(&self, cause: &Cause) {
        let Self { entry, terms, request, begun, .. } = self;
        entry.services.records.failed(&entry.occasion(terms, request, Some(begun.elapsed())), cause);
    }

    /// Waits for an answer that is late, and counts the silence.
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
            // It has not even taken it.
            Err(PluginError::NotTaken) => entry.keep(request, operation.as_ref(), End::Front),
            Err(error @ (PluginError::Refused { .. } | PluginError::TooLarge { .. })) => {
                self.record_failed(&error.into());
            }
        }
        entry.settled();
        if let Some(reply) = late {
            self.answered_late(reply).apply_later();
        }
    }

    /// The plugin has answered, and the request was decided without it. Others may ask it again.
    fn answered_late(self, reply: Reply) -> LateAnswer {
        let Self { entry, terms, request, operation, answering: _, begun, is_trial: _, _lane: _ } = self;
        let (took, arrived) = (Some(begun.elapsed()), entry.services.update_log.arrive());
        LateAnswer { entry, terms, request, operation, took, arrived, reply }
    }
}

/// Tells a plugin one request of its backlog, and judges the plugin by the answer.
pub(crate) async fn deliver(entry: Arc<PluginSession>, request: Arc<Request>, is_probe: bool) {
    let Some(lane) = entry.lane_for_delivery(&request, is_probe).await else { return };
    let terms = entry.terms();
    let answering = answering(&entry, &terms, &request);
    let begun = Instant::now();
    let mut owed = Owed {
        entry: Arc::clone(&entry),
        terms,
        request: Arc::clone(&request),
        operation: None,
        answering,
        begun,
        is_trial: is_probe,
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
        entry.keep(&request, None, End::Front);
    }
    let outcome = entry.judge(&request, begun, is_probe, answer);
    match outcome {
        Ok(reply) => LateAnswer { took: None, ..owed.answered_late(reply) }.apply_soon().await,
        Err(cause) if is_taken => owed.record_failed(&cause),
        Err(_) => _ = entry.pause().await,
    }
    entry.delivered(&request);
}
