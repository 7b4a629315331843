//! Fake plugins and a fake runtime, scripted by the tests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nri_proto::event::WireEvents;
use nri_proto::mux::Closed;
use nri_proto::{
    Adjustment, Container, CreateReply, Event, EventMask, Eviction, FailurePolicy, PluginId, Pod, StopReply, Update,
    UpdateReply, Verdict,
};
use tokio_util::sync::CancellationToken;
use ttrpc::Code;

use crate::Adaptation;
use crate::Config;
use crate::Source;
use crate::UpdatesFailed;
use crate::api::plugin::{Introduction, Plugin, PluginError, Reply, Subscription};
use crate::api::request::Request;
use crate::api::snapshot::Snapshot;

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// All events but validation. A subscriber of validation that does not answer fails every creation.
pub(super) const LIFE: EventMask = {
    let mut events = EventMask::ALL;
    events.remove(Event::ValidateContainerAdjustment);
    events
};

/// The requests to all plugins of a test, in order: `10-a CreateContainer c1`.
#[derive(Clone, Default)]
pub(super) struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn write(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// How a fake plugin answers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Manner {
    After(Duration),
    /// Every third request takes this time, and the others no time.
    EveryThirdAfter(Duration),
    Never,
    Refuses,
    RefusesAfter(Duration),
    GivesUpAfter(Duration),
    Panics,
    DoesNotTake,
    /// Like `DoesNotTake`, after a while.
    DoesNotTakeAfter(Duration),
    /// The connection breaks while the plugin is asked.
    Breaks,
    /// Like `Breaks`, after a while.
    BreaksAfter(Duration),
}

pub(super) struct FakePlugin {
    name: String,
    events: EventMask,
    declared: Mutex<FailurePolicy>,
    diary: Diary,
    manner: Mutex<Manner>,
    replies: Mutex<BTreeMap<Event, Reply>>,
    /// The last request.
    asked: Mutex<Option<Arc<Request>>>,
    /// The timeout of each request.
    timeouts: Mutex<Vec<Duration>>,
    introduction: Mutex<Option<Introduction>>,
    /// How long a synchronization takes.
    synchronizes: Mutex<Duration>,
    shown: Mutex<Vec<Snapshot>>,
    /// The updates that the plugin asks for when it is synchronized.
    wants: Mutex<Vec<Update>>,
    left: CancellationToken,
    now: AtomicUsize,
    most: AtomicUsize,
    pub(super) told_to_go: AtomicUsize,
}

impl FakePlugin {
    pub(super) fn new(name: &str, events: EventMask, manner: Manner, diary: &Diary) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            events,
            declared: Mutex::default(),
            diary: diary.clone(),
            manner: Mutex::new(manner),
            replies: Mutex::default(),
            asked: Mutex::default(),
            timeouts: Mutex::default(),
            introduction: Mutex::default(),
            synchronizes: Mutex::default(),
            shown: Mutex::default(),
            wants: Mutex::default(),
            left: CancellationToken::new(),
            now: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            told_to_go: AtomicUsize::new(0),
        })
    }

    /// Sets how the plugin answers from now on.
    pub(super) fn behave(&self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
    }

    /// Sets the failure policy that the plugin declares.
    pub(super) fn declare(&self, fail_request: bool, keep_connected: bool) {
        *self.declared.lock().unwrap() = FailurePolicy { fail_request, keep_connected, ..FailurePolicy::default() };
    }

    /// Sets the reply to an event from now on, for manners that answer.
    pub(super) fn reply(&self, event: Event, reply: Reply) {
        self.replies.lock().unwrap().insert(event, reply);
    }

    /// Sets the adjustment of created containers from now on.
    pub(super) fn adjust(&self, adjust: impl FnOnce(&mut Adjustment)) {
        let mut adjustment = Adjustment::default();
        adjust(&mut adjustment);
        let reply = CreateReply { adjustment: Some(adjustment), ..CreateReply::default() };
        self.reply(Event::CreateContainer, Reply::Create(Box::new(reply)));
    }

    /// Rejects containers from now on, as a validator.
    pub(super) fn reject(&self, reason: &str) {
        self.reply(Event::ValidateContainerAdjustment, Reply::Verdict(Verdict::reject(reason)));
    }

    /// Sets how long a synchronization takes.
    pub(super) fn synchronizes_for(&self, time: Duration) {
        *self.synchronizes.lock().unwrap() = time;
    }

    /// Sets the updates that the plugin asks for when it is synchronized.
    pub(super) fn wants(&self, updates: Vec<Update>) {
        *self.wants.lock().unwrap() = updates;
    }

    /// Returns the snapshot of each synchronization.
    pub(super) fn shown(&self) -> Vec<Snapshot> {
        self.shown.lock().unwrap().clone()
    }

    /// Returns the last request.
    pub(super) fn asked(&self) -> Arc<Request> {
        self.asked.lock().unwrap().clone().expect("it was asked nothing")
    }

    /// Returns the timeout of each request.
    pub(super) fn timeouts(&self) -> Vec<Duration> {
        self.timeouts.lock().unwrap().clone()
    }

    /// Returns what the runtime told the plugin about itself.
    pub(super) fn introduction(&self) -> Introduction {
        self.introduction.lock().unwrap().clone().expect("it was not configured")
    }

    /// Disconnects the plugin. The adaptation has noticed when this returns.
    pub(super) async fn leave(&self) {
        self.left.cancel();
        tokio::time::sleep(Duration::from_nanos(1)).await;
    }

    /// Returns the largest number of requests in flight at the same time.
    pub(super) fn most_at_a_time(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Plugin for FakePlugin {
    async fn configure(&self, introduction: Introduction) -> Result<Subscription, PluginError> {
        *self.introduction.lock().unwrap() = Some(introduction);
        let declared = self.declared.lock().unwrap().clone();
        Ok(Subscription { events: WireEvents { known: self.events, unknown: 0 }, declared })
    }

    async fn synchronize(&self, snapshot: Snapshot) -> Result<Vec<Update>, PluginError> {
        self.shown.lock().unwrap().push(snapshot);
        let time = *self.synchronizes.lock().unwrap();
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
        Ok(self.wants.lock().unwrap().clone())
    }

    async fn ask(self: Arc<Self>, request: Arc<Request>, timeout: Duration) -> Result<Reply, PluginError> {
        let place = {
            let mut timeouts = self.timeouts.lock().unwrap();
            timeouts.push(timeout);
            timeouts.len()
        };
        let about = request.container().map_or(&request.pod().id, |container| &container.id);
        self.diary.write(format!("{} {} {about}", self.name, request.event().rpc()));
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        *self.asked.lock().unwrap() = Some(Arc::clone(&request));
        let manner = *self.manner.lock().unwrap();
        let answer = match manner {
            Manner::After(time) => {
                tokio::time::sleep(time).await;
                let said = self.replies.lock().unwrap().get(&request.event()).cloned();
                Ok(said.unwrap_or_else(|| reply(request.event())))
            }
            Manner::EveryThirdAfter(time) => {
                if place.is_multiple_of(3) {
                    tokio::time::sleep(time).await;
                }
                Ok(reply(request.event()))
            }
            Manner::Never => std::future::pending().await,
            Manner::Panics => panic!("on purpose"),
            Manner::Breaks => Err(PluginError::Gone(Closed::Eof)),
            Manner::BreaksAfter(time) => {
                tokio::time::sleep(time).await;
                Err(PluginError::Gone(Closed::Eof))
            }
            Manner::DoesNotTake => Err(PluginError::NotTaken),
            Manner::DoesNotTakeAfter(time) => {
                tokio::time::sleep(time).await;
                Err(PluginError::NotTaken)
            }
            Manner::Refuses => Err(PluginError::refused("not today")),
            Manner::RefusesAfter(time) => {
                tokio::time::sleep(time).await;
                Err(PluginError::refused("no"))
            }
            Manner::GivesUpAfter(time) => {
                tokio::time::sleep(time).await;
                Err(PluginError::Refused {
                    code: Code::DEADLINE_EXCEEDED,
                    message: "context deadline exceeded".to_owned(),
                })
            }
        };
        self.now.fetch_sub(1, Ordering::SeqCst);
        answer
    }

    async fn shutdown(&self) {
        self.told_to_go.fetch_add(1, Ordering::SeqCst);
    }

    async fn gone(&self) -> Closed {
        self.left.cancelled().await;
        Closed::Eof
    }
}

/// Returns a reply that asks for no changes.
pub(super) fn reply(event: Event) -> Reply {
    if event == Event::CreateContainer {
        Reply::Create(Box::default())
    } else if event == Event::UpdateContainer {
        Reply::Update(UpdateReply::default())
    } else if event == Event::StopContainer {
        Reply::Stop(StopReply::default())
    } else if event == Event::ValidateContainerAdjustment {
        Reply::Verdict(Verdict::accept())
    } else {
        Reply::Heard
    }
}

pub(super) struct FakeSource;

#[async_trait]
impl Source for FakeSource {
    async fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }

    async fn apply(&self, _: &PluginId, _: Vec<Update>, _: Vec<Eviction>) -> Result<Vec<Update>, UpdatesFailed> {
        Ok(Vec::new())
    }
}

/// Creates an adaptation with a configuration in TOML, and with these plugins.
pub(super) async fn adaptation(config: &str, plugins: &[(&str, &Arc<FakePlugin>)]) -> Adaptation {
    let config = Config { socket: None, ..Config::from_toml(config).unwrap() };
    let adaptation = Adaptation::new(config, Arc::new(FakeSource));
    for (id, plugin) in plugins {
        adaptation.admit(id.parse().unwrap(), Arc::clone(plugin) as Arc<dyn Plugin>).await.unwrap();
    }
    adaptation
}

pub(super) fn pod(id: &str) -> Pod {
    Pod { id: id.to_owned(), ..Pod::default() }
}

pub(super) fn container(id: &str) -> Container {
    Container { id: id.to_owned(), ..Container::default() }
}

/// Formats an error with its causes.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Answers without a delay.
pub(super) fn at_once() -> Manner {
    Manner::After(Duration::ZERO)
}
