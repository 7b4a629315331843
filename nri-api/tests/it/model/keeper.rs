//! A plugin that records its snapshot and its events.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nri_api::plugin::{Introduction, Plugin, PluginError, Reply, Subscription};
use nri_api::proto::event::WireEvents;
use nri_api::proto::{CreateReply, FailurePolicy, StopReply};
use nri_api::request::Request;
use nri_api::snapshot::Snapshot;
use nri_api::{ContainerState, Event, EventMask, Eviction, Update};
use tokio::time::sleep;

use super::checker::{Session, Told};
use super::world::Node;

/// A plugin that records its snapshot and its events. It answers slowly, and may refuse requests or
/// be silent.
pub(super) struct Keeper {
    node: Arc<Node>,
    session: Mutex<Session>,
    manner: Manner,
}

/// How a plugin answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    Well,
    /// Refuses some requests.
    Refuses,
    /// Answers some requests too late.
    IsSilent,
}

impl Keeper {
    pub(super) fn new(node: &Arc<Node>, plugin: String, manner: Manner) -> Arc<Self> {
        let session = Session { plugin, begun: node.tick(), ..Session::default() };
        Arc::new(Self { node: Arc::clone(node), session: Mutex::new(session), manner })
    }

    /// Returns the session of the plugin, if the plugin has got its snapshot.
    pub(super) fn session(&self) -> Option<Session> {
        Some(self.session.lock().unwrap().clone()).filter(|session| session.synced > 0)
    }
}

/// Returns the checker's name of a state. A paused container counts as running.
fn word(state: ContainerState) -> &'static str {
    match state {
        ContainerState::Created => "created",
        ContainerState::Running | ContainerState::Paused => "running",
        ContainerState::Stopped => "stopped",
        ContainerState::Unknown | ContainerState::Unnamed(_) => "unknown",
    }
}

#[async_trait]
impl Plugin for Keeper {
    async fn configure(&self, _: Introduction) -> Result<Subscription, PluginError> {
        let mut known = EventMask::ALL;
        known.remove(Event::ValidateContainerAdjustment);
        Ok(Subscription { events: WireEvents { known, unknown: 0 }, declared: FailurePolicy::default() })
    }

    async fn synchronize(&self, snapshot: Snapshot) -> Result<Vec<Update>, PluginError> {
        {
            let mut session = self.session.lock().unwrap();
            let pods = snapshot.pods.iter().map(|pod| (format!("p/{}", pod.id), "pod"));
            let containers = snapshot.containers.iter().map(|shown| (format!("c/{}", shown.id), word(shown.state)));
            session.shown = pods.chain(containers).collect();
            session.told.clear();
            session.synced = self.node.tick();
        }
        self.node.pause(300).await;
        Ok(Vec::new())
    }

    async fn ask(self: Arc<Self>, request: Arc<Request>, _: Duration) -> Result<Reply, PluginError> {
        let event = request.event();
        let told = Told {
            at: self.node.tick(),
            event: event.rpc(),
            pod: request.pod().id.clone(),
            container: request.container().map(|container| (container.id.clone(), word(container.state))),
        };
        self.session.lock().unwrap().told.push(told);
        self.node.pause(300).await;
        if self.manner == Manner::IsSilent && self.node.one_in(12) {
            sleep(Duration::from_millis(2000 + self.node.below(6000))).await;
        }
        let gates = matches!(
            event,
            Event::RunPodSandbox | Event::CreateContainer | Event::StartContainer | Event::UpdateContainer
        );
        if self.manner == Manner::Refuses && gates && self.node.below(4) == 0 {
            return Err(PluginError::refused("not today"));
        }
        let updates = match self.node.below(3) {
            0 => self
                .node
                .any_container()
                .map(|id| Update { container_id: id, ..Update::default() })
                .into_iter()
                .collect(),
            _ => Vec::new(),
        };
        let evictions = match self.node.below(8) {
            0 => self.node.any_container().map(|id| Eviction::new(&id, "to make room")).into_iter().collect(),
            _ => Vec::new(),
        };
        let own = request.container().map(|container| container.id.clone());
        let updates =
            updates.into_iter().filter(|update: &Update| Some(&update.container_id) != own.as_ref()).collect();
        Ok(if event == Event::CreateContainer {
            Reply::Create(Box::new(CreateReply { updates, evictions, ..CreateReply::default() }))
        } else if event == Event::StopContainer {
            Reply::Stop(StopReply { updates, ..StopReply::default() })
        } else {
            Reply::Heard
        })
    }
}
