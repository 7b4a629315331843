//! New limits of pods and containers, before they are applied.

use std::sync::{Arc, Weak};

use nri_adaptation::merge::MergedUpdate;
use nri_adaptation::{Known, Notice, Prior};
use nri_proto::{Container, Event, Pod, Resources};

use crate::client::NamespaceClient;
use crate::client::guards::{ContainerUpdate, PendingChange, PodUpdate};
use crate::client::start::{ApprovalRequest, prior};
use crate::error::{Error, ObjectKind};
use crate::instance::{RequestContext, plugins_of};
use crate::lifecycle::namespace::{conform, state_of};
use crate::lifecycle::revocable::{Revocable, Revoke};
use crate::lifecycle::state::{ApprovalKind, RunId, State};
use crate::mistake::Mistake;

impl NamespaceClient {
    /// Begins to update a container.
    pub(crate) fn update(
        self,
        pod: Arc<Pod>,
        container: Container,
        resources: Option<Resources>,
    ) -> Revocable<ContainerUpdate> {
        Revocable::new(self.deadline, |revoke| self.ask_to_update(pod, container, resources, revoke))
    }

    pub(crate) async fn update_pod(
        self,
        pod: Arc<Pod>,
        overhead: Option<Resources>,
        resources: Option<Resources>,
        revoke: Weak<dyn Revoke>,
    ) -> Result<PodUpdate, Error> {
        let mut is_new = false;
        let gate = loop {
            is_new |= self.namespace.enter_pod(&pod.id, State::Running, RunId::default());
            if let Some(begun) = self.namespace.pods.gate(&pod.id, &revoke, ApprovalKind::Update).await {
                break begun.map_err(|refusal| Error::refused(refusal, ObjectKind::Pod, &pod.id))?.1;
            }
        };
        let of_pod = if is_new { Prior::Running } else { Prior::AsShown };
        let operation = self.begin(&pod).knowing(Known { pod: of_pod, ..Known::default() });
        operation.notify(Notice::UpdatePod { overhead, resources }).await?;
        let mut underway = PendingChange::new(&self, Arc::clone(&pod), None);
        underway.parked = Some(gate.pass(operation, |_| ()));
        Ok(PodUpdate(Some(underway)))
    }

    /// What plugins know of a container that is updated. What the update itself makes known is as its words say.
    fn known_of_update(&self, asking: &ApprovalRequest<'_>, said: State) -> Known {
        let of_pod = asking.entered.pod.map_or(Prior::AsSaid, prior);
        let hides = said == State::Stopped && self.instance.makes(Mistake::UpdateHides);
        let shows = said != State::Stopped && self.instance.makes(Mistake::UpdateShows);
        let container = match (asking.entered.is_new, hides || shows) {
            (true, _) => prior(said),
            (false, true) => Prior::AsSaid,
            (false, false) => Prior::AsShown,
        };
        Known { pod: of_pod, container }
    }

    async fn ask_to_update(
        self,
        pod: Arc<Pod>,
        mut container: Container,
        resources: Option<Resources>,
        revoke: Weak<dyn Revoke>,
    ) -> Result<ContainerUpdate, Error> {
        let (id, said) = (container.id.clone(), state_of(container.state));
        let run = self.namespace.containers.next_run();
        let asking = self.gate(&id, &pod, said, run, ApprovalKind::Update, &revoke).await?;
        let known = self.known_of_update(&asking, said);
        let ApprovalRequest { gate, state, entered } = asking;
        // What it says of its state may be behind what plugins know, or before it.
        if !entered.is_new && known.container == Prior::AsShown && !self.instance.makes(Mistake::WordsAsTheyAre) {
            conform(&mut container, state);
        }
        let operation = self.begin(&pod).knowing(known);
        let merged = operation.update_container(container, resources.clone()).await?;
        let MergedUpdate { own, others, evictions, owners } = merged;
        let mut underway = PendingChange::new(&self, Arc::clone(&pod), Some(id.clone()));
        underway.parked = Some(gate.pass(operation, |_| ()));
        let asked = RequestContext { event: Event::UpdateContainer, pod };
        self.instance.evict(Some(Arc::clone(&self.namespace)), evictions, Some(asked.clone()));
        self.instance.update(&self.namespace, asked, others, &owners).await;
        let merged = own.and_then(|own| own.linux).and_then(|linux| linux.resources);
        let plugins = plugins_of(&owners, &id).into_iter().map(str::to_owned).collect();
        Ok(ContainerUpdate { underway: Some(underway), resources: merged.or(resources), plugins })
    }
}
