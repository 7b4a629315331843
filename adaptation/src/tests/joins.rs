//! Plugins that are admitted or refused.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nri_proto::event::WireEvents;
use nri_proto::{EventMask, Eviction, FailurePolicy, PluginId, Resources, Update};

use super::fake::FakeSource;
use crate::Adaptation;
use crate::AdmitError;
use crate::Cause;
use crate::Config;
use crate::Happening;
use crate::Metrics;
use crate::Source;
use crate::SourceError;
use crate::UpdatesFailed;
use crate::api::plugin::{Introduction, Plugin, PluginError, Reply, Subscription};
use crate::api::request::Request;
use crate::api::snapshot::Snapshot;

/// A plugin that asks for an update when it is synchronized, or fails the synchronization.
struct Joins {
    refuses: bool,
}

#[async_trait]
impl Plugin for Joins {
    async fn configure(&self, _: Introduction) -> Result<Subscription, PluginError> {
        let events = WireEvents { known: EventMask::default(), unknown: 0 };
        Ok(Subscription { events, declared: FailurePolicy::default() })
    }

    async fn synchronize(&self, _: Snapshot) -> Result<Vec<Update>, PluginError> {
        if self.refuses {
            return Err(PluginError::refused("not today"));
        }
        Ok(vec![Update::new("c", Resources::default())])
    }

    async fn ask(self: Arc<Self>, _: Arc<Request>, _: Duration) -> Result<Reply, PluginError> {
        Ok(Reply::Heard)
    }
}

/// A runtime that records what a plugin asked for, and then refuses the plugin.
#[derive(Default)]
struct Unwilling(Mutex<Vec<String>>);

#[async_trait]
impl Source for Unwilling {
    async fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }

    async fn synchronized(&self, plugin: &PluginId, updates: Vec<Update>) -> Result<Vec<Update>, SourceError> {
        let updated = updates.into_iter().map(|update| format!("{plugin} {}", update.container_id));
        self.0.lock().unwrap().extend(updated);
        Err(SourceError("not this one".to_owned()))
    }

    async fn apply(&self, _: &PluginId, _: Vec<Update>, _: Vec<Eviction>) -> Result<Vec<Update>, UpdatesFailed> {
        panic!("nobody asked for it outside a synchronization")
    }
}

fn config() -> Config {
    Config { socket: None, ..Config::default() }
}

#[tokio::test]
async fn a_plugin_that_the_runtime_does_not_want_after_all_is_not_let_in() {
    let source = Arc::new(Unwilling::default());
    let nri = Adaptation::new(config(), Arc::clone(&source) as Arc<dyn Source>);
    let mut happenings = nri.watch_plugins();
    let refused = nri.admit("10-a".parse().unwrap(), Arc::new(Joins { refuses: false })).await.unwrap_err();
    assert!(matches!(refused, AdmitError::Source { .. }), "{refused:?}");
    assert_eq!(*source.0.lock().unwrap(), ["10-a c"]);
    assert!(nri.plugins().is_empty());
    let Happening::Closed { reason, .. } = happenings.recv().await.unwrap() else { panic!("it was let in") };
    assert_eq!(reason, "the runtime failed to synchronize plugin 10-a: not this one");
}

/// Metrics, recorded as lines.
#[derive(Default)]
struct Counted(Mutex<Vec<String>>);

impl Counted {
    fn write(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }
}

impl Metrics for Counted {
    fn invocation(&self, plugin: &PluginId, operation: &str, failure: Option<&Cause>) {
        let failure = failure.map(ToString::to_string).unwrap_or_default();
        self.write(format!("{plugin} {operation} {failure}"));
    }

    fn latency(&self, plugin: &PluginId, operation: &str, _: Duration) {
        self.write(format!("{plugin} {operation} took"));
    }

    fn adjustments(&self, plugin: &PluginId, operation: &str, reply: &Reply) {
        let Reply::Stop(reply) = reply else { panic!("no such answer") };
        self.write(format!("{plugin} {operation} wants {}", reply.updates.len()));
    }

    fn plugins(&self, count: usize) {
        self.write(count.to_string());
    }
}

#[tokio::test]
async fn a_synchronization_is_counted_like_a_request() {
    let counted = Arc::new(Counted::default());
    let nri = Adaptation::with_metrics(config(), Arc::new(FakeSource), Arc::clone(&counted) as Arc<dyn Metrics>);
    nri.admit("10-a".parse().unwrap(), Arc::new(Joins { refuses: false })).await.unwrap();
    nri.admit("20-b".parse().unwrap(), Arc::new(Joins { refuses: true })).await.unwrap_err();
    let lines = [
        "10-a Synchronize took",
        "10-a Synchronize ",
        "10-a Synchronize wants 1",
        "1",
        "20-b Synchronize took",
        "20-b Synchronize not today",
    ];
    assert_eq!(*counted.0.lock().unwrap(), lines);
}
