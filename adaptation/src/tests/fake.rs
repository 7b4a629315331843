//! Plugins and a runtime that do as the test says.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nri_proto::event::WireEvents;
use nri_proto::{Container, Event, EventMask, Eviction, FailurePolicy, PluginId, Pod, StopReply, Update, UpdateReply};
use ttrpc::Code;

use crate::plugin::{Introduction, Plugin, PluginError, Reply, Subscription};
use crate::request::Request;
use crate::snapshot::Snapshot;
use crate::{Adaptation, Config, Source};

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// All events but the validation of others: who does not answer to that lets nothing be created.
pub(super) const LIFE: EventMask = {
    let mut events = EventMask::ALL;
    events.remove(Event::ValidateContainerAdjustment);
    events
};

/// What all plugins of a test have seen, in order: `10-a CreateContainer c1`.
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
    Never,
    Refuses,
    GivesUpAfter(Duration),
    Panics,
    DoesNotTake,
}

pub(super) struct FakePlugin {
    name: String,
    events: EventMask,
    declared: FailurePolicy,
    diary: Diary,
    manner: Mutex<Manner>,
    now: AtomicUsize,
    most: AtomicUsize,
    pub(super) told_to_go: AtomicUsize,
}

impl FakePlugin {
    pub(super) fn new(name: &str, events: EventMask, manner: Manner, diary: &Diary) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            events,
            declared: FailurePolicy::default(),
            diary: diary.clone(),
            manner: Mutex::new(manner),
            now: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            told_to_go: AtomicUsize::new(0),
        })
    }

    /// From now on it answers like this.
    pub(super) fn behave(&self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
    }

    /// The most requests that it had at a time.
    pub(super) fn most_at_a_time(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Plugin for FakePlugin {
    async fn configure(&self, _: Introduction) -> Result<Subscription, PluginError> {
        Ok(Subscription { events: WireEvents { known: self.events, unknown: 0 }, declared: self.declared.clone() })
    }

    async fn ask(self: Arc<Self>, request: Arc<Request>, _: Duration) -> Result<Reply, PluginError> {
        let about = request.container().map_or(&request.pod().id, |container| &container.id);
        self.diary.write(format!("{} {} {about}", self.name, request.event().rpc()));
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let manner = *self.manner.lock().unwrap();
        let answer = match manner {
            Manner::After(time) => {
                tokio::time::sleep(time).await;
                Ok(reply(request.event()))
            }
            Manner::Never => std::future::pending().await,
            Manner::Panics => panic!("on purpose"),
            Manner::DoesNotTake => Err(PluginError::NotTaken),
            Manner::Refuses => Err(PluginError::refused("not today")),
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
}

fn reply(event: Event) -> Reply {
    if event == Event::CreateContainer {
        Reply::Create(Box::default())
    } else if event == Event::UpdateContainer {
        Reply::Update(UpdateReply::default())
    } else if event == Event::StopContainer {
        Reply::Stop(StopReply::default())
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

    async fn apply(&self, _: &PluginId, _: Vec<Update>, _: Vec<Eviction>) -> Vec<Update> {
        Vec::new()
    }
}

/// An adaptation with this configuration, in TOML, and these plugins.
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

/// A time for all.
pub(super) fn at_once() -> Manner {
    Manner::After(Duration::ZERO)
}
