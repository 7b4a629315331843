//! A plugin that records its snapshots and requests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nri_proto::event::WireEvents;
use nri_proto::mux::Closed;
use nri_proto::{ContainerState, CreateReply, FailurePolicy, Resources, StopReply, Update, UpdateReply};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use ttrpc::Code;

use super::world::Node;
use crate::api::plugin::{Introduction, Plugin, PluginError, Reply, Subscription};
use crate::api::request::Request;
use crate::api::snapshot::Snapshot;
use crate::tests::fake::{LIFE, reply};

pub(super) struct Bookkeeper {
    node: Arc<Node>,
    patience: Duration,
    /// The snapshot, with the time at which the runtime was asked for it.
    pub(super) shown: Mutex<(u64, BTreeMap<String, &'static str>)>,
    pub(super) told: Mutex<Vec<(&'static str, String)>>,
    /// The number of requests in flight for each pod.
    busy: Mutex<BTreeMap<String, u64>>,
    pub(super) overlapped: AtomicBool,
    pub(super) good: AtomicBool,
    pub(super) left: CancellationToken,
}

impl Bookkeeper {
    pub(super) fn new(node: &Arc<Node>, good: bool) -> Arc<Self> {
        Arc::new(Self {
            node: Arc::clone(node),
            patience: node.millis(2000),
            shown: Mutex::default(),
            told: Mutex::default(),
            busy: Mutex::default(),
            overlapped: AtomicBool::new(false),
            good: AtomicBool::new(good),
            left: CancellationToken::new(),
        })
    }

    /// Counts a request that begins, and checks that requests do not overlap.
    fn is_asked(&self, pod: &str) {
        let mut busy = self.busy.lock().unwrap();
        let others: u64 = if self.node.per_pod { busy.get(pod).copied().unwrap_or(0) } else { busy.values().sum() };
        if others > 0 {
            self.overlapped.store(true, Ordering::SeqCst);
        }
        *busy.entry(pod.to_owned()).or_default() += 1;
    }

    fn has_answered(&self, pod: &str) {
        *self.busy.lock().unwrap().get_mut(pod).unwrap() -= 1;
    }

    /// Returns the reply to a request. Some replies ask for updates of other containers.
    fn reply(&self, request: &Request) -> Reply {
        if self.node.below(6) > 0 {
            return reply(request.event());
        }
        let updates = vec![Update::new(format!("p{}c0", self.node.below(4)), Resources::default())];
        match reply(request.event()) {
            Reply::Create(_) => Reply::Create(Box::new(CreateReply { updates, ..CreateReply::default() })),
            Reply::Update(_) => Reply::Update(UpdateReply { updates, ..UpdateReply::default() }),
            Reply::Stop(_) => Reply::Stop(StopReply { updates, ..StopReply::default() }),
            other @ (Reply::Heard | Reply::Verdict(_)) => other,
        }
    }
}

#[async_trait]
impl Plugin for Bookkeeper {
    async fn configure(&self, _: Introduction) -> Result<Subscription, PluginError> {
        self.node.pause(200).await;
        Ok(Subscription { events: WireEvents { known: LIFE, unknown: 0 }, declared: FailurePolicy::default() })
    }

    async fn synchronize(&self, snapshot: Snapshot) -> Result<Vec<Update>, PluginError> {
        let pods = snapshot.pods.iter().map(|pod| (pod.id.clone(), "pod"));
        let containers = snapshot.containers.iter().map(|container| {
            let state = match container.state {
                ContainerState::Running => "running",
                ContainerState::Stopped => "stopped",
                ContainerState::Unknown
                | ContainerState::Created
                | ContainerState::Paused
                | ContainerState::Unnamed(_) => "created",
            };
            (container.id.clone(), state)
        });
        *self.shown.lock().unwrap() = (self.node.asked(), pods.chain(containers).collect());
        // If a join starts over, earlier requests do not count any more.
        self.told.lock().unwrap().clear();
        sleep(self.patience).await;
        Ok(Vec::new())
    }

    async fn ask(self: Arc<Self>, request: Arc<Request>, _: Duration) -> Result<Reply, PluginError> {
        let manner = if self.good.load(Ordering::SeqCst) { 0 } else { self.node.below(20) };
        if manner == 19 {
            // The failure may take some time.
            self.node.pause(3000).await;
            return Err(PluginError::NotTaken);
        }
        let about = request.container().map_or(&request.pod().id, |container| &container.id);
        self.told.lock().unwrap().push((request.event().rpc(), about.clone()));
        self.is_asked(&request.pod().id);
        match manner {
            0..=9 => {}
            10..=15 => self.node.pause(1900).await,
            16 => self.node.pause(9000).await,
            _ => self.node.pause(50).await,
        }
        self.has_answered(&request.pod().id);
        match manner {
            17 => Err(PluginError::refused("not today")),
            18 => Err(PluginError::Refused { code: Code::DEADLINE_EXCEEDED, message: "too late".to_owned() }),
            _ => Ok(self.reply(&request)),
        }
    }

    async fn gone(&self) -> Closed {
        self.left.cancelled().await;
        Closed::Eof
    }
}
