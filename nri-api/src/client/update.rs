//! New limits of pods and containers: what plugins are asked, and what the runtime then reports.

use std::sync::Arc;

use nri_adaptation::merge::MergedUpdate;
use nri_adaptation::{KnownState, KnownStates, Notice};
use nri_proto::{Container, Event, Pod, Resources};

use super::NamespaceClient;
use super::approval::ApprovalRequest;
use super::pending::PendingChange;
use crate::error::{Error, ObjectKind};
use crate::instance::plugin_requests::{RequestContext, plugins_of};
use crate::lifecycle::convert::{conform, prior, state_of};
use crate::lifecycle::state::State;
use crate::lifecycle::steps::{ApprovalKind, Completion, RunId};
use crate::mistake::Mistake;

/// New limits of a pod that plugins approved.
///
/// If the value is dropped without [`updated`](Self::updated) or [`commit`](Self::commit), the
/// update has failed.
#[must_use = "an update that is not reported has failed"]
pub struct PodUpdate {
    /// `None` if NRI is disabled.
    pending: Option<PendingChange>,
}

impl PodUpdate {
    /// Returns the value that a disabled NRI returns.
    pub(crate) fn unasked() -> Self {
        Self { pending: None }
    }

    /// Reports that the pod has its new limits.
    ///
    /// The update counts as done as soon as this is called, whether or not the returned future is
    /// awaited. The future sends PostUpdatePodSandbox to plugins.
    ///
    /// # Errors
    ///
    /// A plugin failed to handle the event. The pod keeps its new limits.
    pub fn updated(self, pod: Pod) -> impl Future<Output = Result<(), Error>> + Send {
        let committed = self.pending.map(PendingChange::into_committed);
        async move {
            let Some((client, _)) = committed else { return Ok(()) };
            Box::pin(client.post_pod(pod)).await
        }
    }

    /// Reports that the pod has its new limits. To notify plugins, call
    /// [`Handle::post_update_pod`](crate::Handle::post_update_pod).
    pub fn commit(self) {
        if let Some(mut pending) = self.pending {
            pending.commit();
        }
    }
}

/// New limits of a container, as plugins want them.
///
/// If the value is dropped without [`updated`](Self::updated) or [`commit`](Self::commit), the
/// update has failed, and the ledger says so for each plugin that has changed the limits.
#[must_use = "an update that is not reported has failed"]
pub struct ContainerUpdate {
    /// `None` if NRI is disabled, and after a commit.
    pending: Option<PendingChange>,
    resources: Option<Resources>,
    /// The plugins that have changed the requested limits.
    plugins: Vec<String>,
}

impl Drop for ContainerUpdate {
    fn drop(&mut self) {
        let Some(PendingChange { client, pod, container: Some(id), .. }) = &self.pending else { return };
        let context = RequestContext { event: Event::UpdateContainer, pod: Arc::clone(pod) };
        for plugin in &self.plugins {
            let reason = "the runtime did not apply the update".to_owned();
            client.instance.record_update_failure(plugin, Some(&context), id, reason);
        }
    }
}

impl ContainerUpdate {
    /// Returns the update of a container that no plugin was asked about.
    pub(crate) fn unasked(resources: Option<Resources>) -> Self {
        Self { pending: None, resources, plugins: Vec::new() }
    }

    /// Returns the limits to apply: all requested limits, with the changes of plugins. Returns
    /// `None` if neither the runtime nor a plugin wants any.
    #[must_use]
    pub fn resources(&self) -> Option<&Resources> {
        self.resources.as_ref()
    }

    /// Reports that the container has its new limits.
    ///
    /// The update counts as done as soon as this is called, whether or not the returned future is
    /// awaited. The future sends PostUpdateContainer to plugins.
    ///
    /// # Errors
    ///
    /// A plugin failed to handle the event. The container keeps its new limits.
    pub fn updated(mut self, container: Container) -> impl Future<Output = Result<(), Error>> + Send {
        let committed = self.pending.take().map(PendingChange::into_committed);
        async move {
            let Some((client, pod)) = committed else { return Ok(()) };
            Box::pin(client.post(&pod, container, Completion::Update, Notice::PostUpdate)).await
        }
    }

    /// Reports that the container has its new limits. To notify plugins, call
    /// [`Handle::post_update_container`](crate::Handle::post_update_container).
    pub fn commit(mut self) {
        if let Some(mut pending) = self.pending.take() {
            pending.commit();
        }
    }
}

impl NamespaceClient {
    /// Asks plugins about new limits of a pod.
    pub(crate) async fn update_pod(
        self,
        pod: Arc<Pod>,
        overhead: Option<Resources>,
        resources: Option<Resources>,
    ) -> Result<PodUpdate, Error> {
        let mut is_new = false;
        let approval = loop {
            is_new |= self.namespace.enter_pod(&pod.id, State::Running, RunId::default());
            if let Some(begun) = self.namespace.pods.begin_approval(&pod.id, ApprovalKind::Update).await {
                break begun.map_err(|refusal| refusal.error(ObjectKind::Pod, &pod.id))?.1;
            }
        };
        let of_pod = if is_new { KnownState::Running } else { KnownState::AsShown };
        let operation = self.begin(&pod).knowing(KnownStates { pod: of_pod, ..KnownStates::default() });
        operation.notify(Notice::UpdatePod { overhead, resources }).await?;
        let mut pending = PendingChange::new(&self, Arc::clone(&pod), None);
        pending.key = Some(approval.grant(operation, |_| ()));
        Ok(PodUpdate { pending: Some(pending) })
    }

    /// Asks plugins about new limits of a container.
    pub(crate) async fn update(
        self,
        pod: Arc<Pod>,
        mut container: Container,
        resources: Option<Resources>,
    ) -> Result<ContainerUpdate, Error> {
        let (id, said) = (container.id.clone(), state_of(container.state));
        let run = self.namespace.containers.next_run();
        let asked = self.begin_approval(&id, &pod, said, run, ApprovalKind::Update).await?;
        let known = self.known_of_update(&asked, said);
        let ApprovalRequest { approval, state, newly_known } = asked;
        // The state that the runtime reports may differ from what plugins know.
        let is_known = !newly_known.is_new && known.container == KnownState::AsShown;
        if is_known && !Mistake::WordsAsTheyAre.is_injected() {
            conform(&mut container, state);
        }
        let operation = self.begin(&pod).knowing(known);
        let merged = operation.update_container(container, resources.clone()).await?;
        let MergedUpdate { own, others, evictions, owners } = merged;
        let mut pending = PendingChange::new(&self, Arc::clone(&pod), Some(id.clone()));
        pending.key = Some(approval.grant(operation, |_| ()));
        let context = RequestContext { event: Event::UpdateContainer, pod };
        let updated = self.instance.apply_updates(&self.namespace, context.clone(), others, &owners);
        self.instance.evict(Some(Arc::clone(&self.namespace)), evictions, Some(context));
        updated.await;
        let merged = own.and_then(|own| own.linux).and_then(|linux| linux.resources);
        let plugins = plugins_of(&owners, &id).into_iter().map(str::to_owned).collect();
        Ok(ContainerUpdate { pending: Some(pending), resources: merged.or(resources), plugins })
    }

    /// Returns what plugins know before the update of a container that the runtime reports in the
    /// state `said`.
    fn known_of_update(&self, asked: &ApprovalRequest<'_>, said: State) -> KnownStates {
        let of_pod = asked.newly_known.pod.map_or(KnownState::AsSaid, prior);
        let hides = said == State::Stopped && Mistake::UpdateHides.is_injected();
        let shows = said != State::Stopped && Mistake::UpdateShows.is_injected();
        let container = match (asked.newly_known.is_new, hides || shows) {
            (true, _) => prior(said),
            (false, true) => KnownState::AsSaid,
            (false, false) => KnownState::AsShown,
        };
        KnownStates { pod: of_pod, container }
    }
}
