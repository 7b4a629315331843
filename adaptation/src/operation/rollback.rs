//! The rollback of a failed operation: plugins are notified that a pod or container that was begun
//! has ended.
//!
//! As in containerd, a pod is stopped and removed, and so is a container. Only plugins that have
//! seen the beginning are notified, each after it has answered the request that began the object.
//! For a container that was to start, plugins are notified of its stop, if the operation rolls
//! starts back.

use std::sync::Arc;

use nri_proto::quote::error_line;
use nri_proto::{Container, ContainerState, Event, StopReply, Update};
use tokio::time::Instant;
use tracing::{Instrument, info_span, warn};

use crate::api::error::Cause;
use crate::api::health::State;
use crate::api::plugin::Reply;
use crate::api::request::{Request, Subject};
use crate::operation::shared::Shared;
use crate::operation::state::OperationState;
use crate::session::late;
use crate::session::patience::{Allowance, Patience};
use crate::session::unsolicited::UnsolicitedChanges;
use crate::session::{PluginSession, RequestScope};

/// The option of an operation to roll a start back, and to stop the container's pod with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartUndo {
    pub(crate) with_pod: bool,
}

/// A pod or container whose creation or start was begun, and the plugins that have seen the request
/// for it.
pub(crate) struct BegunObject {
    request: Arc<Request>,
    start_undo: Option<StartUndo>,
    pub(crate) seen: Vec<Arc<PluginSession>>,
    stopped: bool,
    removed: bool,
}

impl BegunObject {
    pub(crate) fn new(request: Arc<Request>, seen: Vec<Arc<PluginSession>>, start_undo: Option<StartUndo>) -> Self {
        Self { request, start_undo, seen, stopped: false, removed: false }
    }

    /// Returns whether a request with this event begins something that a rollback ends. A start
    /// does so only if starts are rolled back.
    pub(crate) fn is_begin(event: Event, start_undo: Option<StartUndo>) -> bool {
        let is_start = event == Event::StartContainer && start_undo.is_some();
        is_start || matches!(event, Event::RunPodSandbox | Event::CreateContainer)
    }

    /// Returns whether a request is the one that began this object, possibly in a version without
    /// the changes of other plugins.
    pub(crate) fn is_begun_by(&self, other: &Request) -> bool {
        self.request.event() == other.event() && self.container() == id(other)
    }

    /// Records a request of the runtime itself that ends this object.
    pub(crate) fn ends_with(&mut self, request: &Request) {
        if self.container() != id(request) {
            return;
        }
        let (stop, remove) = self.ends();
        self.stopped |= request.event() == stop;
        self.removed |= request.event() == remove;
    }

    fn container(&self) -> Option<&str> {
        id(&self.request)
    }

    /// Returns the events of the object's stop and of its removal.
    fn ends(&self) -> (Event, Event) {
        if self.request.event() == Event::RunPodSandbox {
            return (Event::StopPodSandbox, Event::RemovePodSandbox);
        }
        (Event::StopContainer, Event::RemoveContainer)
    }

    /// Returns the events that roll back a request with this event.
    pub(crate) fn ends_of(event: Event, start_undo: Option<StartUndo>) -> Vec<Event> {
        match (event, start_undo) {
            (Event::RunPodSandbox, _) => vec![Event::StopPodSandbox, Event::RemovePodSandbox],
            (Event::StartContainer, Some(StartUndo { with_pod: true })) => {
                vec![Event::StopContainer, Event::StopPodSandbox]
            }
            (Event::StartContainer, _) => vec![Event::StopContainer],
            (_, _) => vec![Event::StopContainer, Event::RemoveContainer],
        }
    }

    /// Returns the requests that roll the object back, without those that the runtime has sent
    /// itself.
    pub(crate) fn undone(&self) -> impl Iterator<Item = Arc<Request>> {
        let (stop, _) = self.ends();
        let is_due = |event: &Event| !self.removed && (!self.stopped || *event != stop);
        let mut events = Self::ends_of(self.request.event(), self.start_undo);
        events.retain(is_due);
        let subject = match self.request.subject() {
            Subject::Container(container) => Subject::Container(Arc::new(Container {
                state: ContainerState::Stopped,
                ..Container::clone(container)
            })),
            Subject::Pod | Subject::PodResources { .. } | Subject::ContainerResources { .. } | Subject::Proposal(_) => {
                Subject::Pod
            }
        };
        events.into_iter().map(move |event| {
            let subject = if event == Event::StopPodSandbox { Subject::Pod } else { subject.clone() };
            Arc::new(self.request.of(event, subject))
        })
    }
}

fn id(request: &Request) -> Option<&str> {
    request.container().map(|container| &*container.id)
}

/// The requests of a rollback, each with the plugins that receive it.
pub(crate) struct Undo {
    pod: Arc<str>,
    steps: Vec<(Arc<Request>, Vec<Arc<PluginSession>>)>,
}

impl Undo {
    /// Returns the rollback of everything that an operation has begun, the last object first.
    /// Returns `None` if there is nothing to send.
    pub(crate) fn of(operation: &OperationState, begun: Vec<BegunObject>) -> Option<Self> {
        let steps: Vec<_> = begun
            .iter()
            .rev()
            .filter(|begun| !begun.seen.is_empty())
            .flat_map(|begun| begun.undone().map(|request| (request, begun.seen.clone())))
            .collect();
        (!steps.is_empty()).then(|| Self { pod: Arc::clone(&operation.pod_id), steps })
    }

    /// Sends the requests in a task. Its place in the queue of the pod is taken before this
    /// function returns, so later requests about the pod wait behind the rollback.
    pub(crate) fn start(self, shared: &Arc<Shared>, operation: Arc<OperationState>) {
        let Self { pod, steps } = self;
        let span = info_span!("undo", pod = &*pod);
        let place = shared.turns.enqueue(pod);
        let to = Arc::clone(shared);
        let telling = async move {
            let turn = place.turn().await;
            let mut wanted = Vec::new();
            for (request, seen) in steps {
                request.decision().begins(to.services.update_log.now());
                wanted.extend(tell_all(&to, &seen, &request, &operation).await);
            }
            drop(turn);
            to.undone(&operation);
            for (entry, updates) in wanted {
                // The plugin may have left, or may not be permitted any more. Failures are logged
                // and recorded.
                if let Ok(policy) = to.services.policy_now(&entry.id, entry.identity) {
                    let _ = UnsolicitedChanges::updates(updates).apply(&to.services, &entry.id, &policy).await;
                }
            }
        };
        shared.services.spawn(telling.instrument(span));
    }
}

/// Sends one request of a rollback to the plugins that saw the beginning. Returns the updates of
/// other containers that the plugins want, since more resources are free now. Plugins that do not
/// answer cost no more than the budget of one request, because other requests wait for the turn of
/// the pod.
async fn tell_all(
    shared: &Shared,
    seen: &[Arc<PluginSession>],
    request: &Arc<Request>,
    operation: &Arc<OperationState>,
) -> Vec<(Arc<PluginSession>, Vec<Update>)> {
    // A plugin that saw the beginning receives the end, also if its policy hides the pod by now.
    let told: Vec<_> = seen.iter().filter(|entry| entry.terms().events.contains(request.event())).collect();
    if told.is_empty() {
        return Vec::new();
    }
    let mut patience = Patience::new(shared.roster().config().request_budget);
    let mut wanted = Vec::new();
    for (place, entry) in told.iter().enumerate() {
        let n_to_ask = || told[place..].iter().filter(|entry| entry.state() == State::Active).count();
        let updates = tell(entry, request, operation, &mut patience, n_to_ask).await;
        wanted.extend(updates.map(|updates| (Arc::clone(entry), updates)));
    }
    wanted
}

/// Sends one request of a rollback to a plugin. `n_to_ask` counts the active plugins that are still
/// to receive the request, this one included.
async fn tell(
    entry: &Arc<PluginSession>,
    request: &Arc<Request>,
    operation: &Arc<OperationState>,
    patience: &mut Patience,
    n_to_ask: impl FnOnce() -> usize,
) -> Option<Vec<Update>> {
    let (begun, terms) = (Instant::now(), entry.terms());
    let timeout = terms.policy().request_timeout;
    let allowance = match terms.may_be_cut_short() {
        true => patience.of_next(timeout, n_to_ask),
        false => Allowance::Whole,
    };
    let told = entry.ask_on(&terms, request, RequestScope::Undoes(&**operation), allowance).await;
    let occasion = entry.occasion(&terms, request, Some(begun.elapsed()));
    match told {
        Ok(mut reply) => {
            entry.services.watchers.metrics().adjustments(&entry.id, request.event().rpc(), &reply);
            entry.services.records.unread(&occasion, late::take_unread(&mut reply));
            let Reply::Stop(StopReply { updates, unknown: _ }) = reply else { return None };
            Some(updates).filter(|updates| !updates.is_empty())
        }
        Err(cause) => {
            if cause.is_unanswered() {
                patience.charge(begun.elapsed(), timeout);
            }
            if !matches!(cause, Cause::PassedOver(_) | Cause::CatchingUp | Cause::Behind | Cause::CutShort) {
                warn!(plugin = %entry.id, error = %error_line(&cause), "plugin failed to handle the rollback of an operation");
                entry.services.records.ledger().record(&occasion, (&cause).into());
            }
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use nri_proto::Pod;

    use super::*;

    #[test]
    fn what_did_not_come_to_be_has_stopped() {
        let subject = Subject::Container(Arc::new(Container { name: "app".to_owned(), ..Container::default() }));
        let request = Request::new(Event::CreateContainer, Arc::new(Pod::default()), subject);
        let told: Vec<_> = BegunObject::new(Arc::new(request), Vec::new(), None).undone().collect();
        assert_eq!(
            told.iter().map(|end| end.event()).collect::<Vec<_>>(),
            [Event::StopContainer, Event::RemoveContainer]
        );
        for end in told {
            let container = end.container().unwrap();
            assert_eq!((&*container.name, container.state), ("app", ContainerState::Stopped));
        }
    }
}
