//! A plugin that was asked and has not answered yet, whether or not anyone waits for it.

use std::pin::Pin;
use std::sync::Arc;

use nri_proto::StopReply;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use crate::adaptation::report_failed;
use crate::entry::Entry;
use crate::events::Happening;
use crate::health::State;
use crate::plugin::{PluginError, Reply};
use crate::request::Request;

/// What a plugin says.
pub(crate) type Answer = Result<Reply, PluginError>;

type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// An answer that is owed, and the lane that it occupies.
///
/// Dropped before the answer came, it goes on in a task: the plugin has been asked, it is judged
/// by its answer, and until then nobody else asks it.
pub(crate) struct Asked {
    owed: Option<Owed>,
}

struct Owed {
    entry: Arc<Entry>,
    request: Arc<Request>,
    answering: Answering,
    begun: Instant,
    lane: OwnedSemaphorePermit,
}

impl Asked {
    /// Begins to ask.
    pub(crate) fn new(entry: Arc<Entry>, request: Arc<Request>, lane: OwnedSemaphorePermit, begun: Instant) -> Self {
        let answering = Arc::clone(&entry.plugin).ask(Arc::clone(&request), entry.request_timeout());
        Self { owed: Some(Owed { entry, request, answering, begun, lane }) }
    }

    /// When the answer is late.
    pub(crate) fn deadline(&self) -> Instant {
        self.owed().deadline()
    }

    /// The answer, however late.
    pub(crate) fn answer(&mut self) -> &mut Answering {
        &mut self.owed.as_mut().expect(HELD).answering
    }

    /// It has come.
    pub(crate) fn finish(mut self) {
        self.owed = None;
    }

    /// It has not come in time, and a strike was counted.
    pub(crate) fn linger(mut self) {
        let owed = self.owed.take().expect(HELD);
        let entry = Arc::clone(&owed.entry);
        entry.shared.tasks.spawn(owed.late());
    }

    fn owed(&self) -> &Owed {
        self.owed.as_ref().expect(HELD)
    }
}

/// Why it is there.
const HELD: &str = "it is held until it is finished or lingers";

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(owed) = self.owed.take() {
            let entry = Arc::clone(&owed.entry);
            entry.shared.tasks.spawn(owed.left_alone());
        }
    }
}

impl Owed {
    fn deadline(&self) -> Instant {
        self.begun + self.entry.request_timeout()
    }

    /// The caller has left. The plugin is judged as if it had not.
    async fn left_alone(mut self) {
        let deadline = self.deadline();
        let answer = tokio::select! {
            answer = timeout_at(deadline, &mut self.answering) => answer.ok(),
            () = self.entry.closed.cancelled() => return,
        };
        let in_time = answer.is_some();
        self.entry.told(&self.request, self.begun, answer);
        if !in_time {
            self.late().await;
        }
    }

    /// Waits for an answer that is late, counts the silence, and tells the plugin what it missed.
    async fn late(mut self) {
        loop {
            let interval = self.entry.request_timeout();
            tokio::select! {
                biased;
                () = self.entry.closed.cancelled() => return,
                answer = &mut self.answering => {
                    let Owed { entry, request, begun, lane, answering } = self;
                    drop(answering);
                    entry.shared.watchers.tell(Happening::Late {
                        plugin: entry.id.clone(),
                        event: request.event(),
                        took: begun.elapsed(),
                    });
                    if let Err(PluginError::Gone(reason)) = &answer {
                        entry.close(&reason.to_string());
                    }
                    // A suspended plugin is left in peace until its pause is over.
                    if entry.settled() && entry.state() == State::Silent {
                        tell_missed(entry, lane).await;
                    }
                    return;
                }
                () = tokio::time::sleep(interval) => self.entry.still_silent(),
            }
        }
    }
}

/// Tries a suspended plugin with what it missed.
pub(crate) async fn catch_up(entry: Arc<Entry>) {
    if let Some(lanes) = entry.all_lanes().await {
        tell_missed(entry, lanes).await;
    }
}

/// Tells a plugin what it missed, in order, while its lane is held.
fn tell_missed(entry: Arc<Entry>, lane: OwnedSemaphorePermit) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        while let Some(request) = entry.next_missed() {
            let begun = Instant::now();
            let mut answering = Arc::clone(&entry.plugin).ask(Arc::clone(&request), entry.request_timeout());
            let answer = tokio::select! {
                answer = timeout_at(begun + entry.request_timeout(), &mut answering) => answer.ok(),
                () = entry.closed.cancelled() => return,
            };
            let in_time = answer.is_some();
            if let Some(Reply::Stop(StopReply { updates, unknown: _ })) = entry.told(&request, begun, answer)
                && !updates.is_empty()
            {
                let failed = entry.shared.source.apply(&entry.id, updates, Vec::new()).await;
                report_failed(&entry.id, failed.len());
            }
            if !in_time {
                Owed { entry, request, answering, begun, lane }.late().await;
                return;
            }
        }
        drop(lane);
    })
}
