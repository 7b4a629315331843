//! Log messages about changes that plugins asked for and that failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nri_api::testing::FakeDomain;
use nri_api::{Config, Event, Eviction, Update};
use nri_plugin::{Connection, Options, Runner};
use tokio_util::sync::CancellationToken;
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};

use crate::rig::{Rig, config, create_reply, settle};

/// Counts the warnings of this thread.
#[derive(Clone, Default)]
struct Warnings(Arc<AtomicUsize>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn of_many_failed_updates_and_evictions_ten_are_logged_and_the_rest_is_counted() {
    for (count, expected) in [(3, 3), (10, 10), (500, 11)] {
        let rig = Rig::new().await;
        rig.run_pod("p").await;
        let id = |n: usize| format!("never\n{n}");
        let updates = (0..count).map(|n| Update::of(id(n))).collect();
        let evictions = (0..count).map(|n| Eviction::new(id(n), "to make room")).collect();
        let replies = [create_reply(updates, Vec::new()), create_reply(Vec::new(), evictions)];
        for (place, reply) in replies.into_iter().enumerate() {
            let warnings = Warnings::default();
            let _guard = tracing::subscriber::set_default(warnings.clone());
            rig.plugin.reply(Event::CreateContainer, reply);
            rig.create("p", &format!("c{place}")).await;
            settle().await;
            assert_eq!(warnings.0.load(Ordering::Relaxed), expected);
        }
    }
}

struct Caller;

impl nri_plugin::Plugin for Caller {
    fn events(&self) -> nri_plugin::EventMask {
        Event::RemovePodSandbox.into()
    }
}

#[tokio::test]
async fn a_plugin_that_calls_again_and_again_for_what_fails_does_not_flood_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("nri.sock");
    let _rig = Rig::with(Config { socket: Some(socket.clone()), ..config() }, FakeDomain::new()).await;
    let options = Options {
        name: Some("caller".to_owned()),
        index: Some("20".to_owned()),
        connection: Connection::Path(socket),
        ..Options::default()
    };
    let runner = Runner::new(Arc::new(Caller), options).unwrap();
    let (runtime, shutdown) = (runner.runtime(), CancellationToken::new());
    let running = tokio::spawn(runner.run(shutdown.clone()));
    runtime.connected().await;
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    for _ in 0..100 {
        runtime.update(vec![Update::of("none")], vec![Eviction::new("none", "enough")]).await.unwrap_err();
    }
    settle().await;
    assert_eq!(warnings.0.load(Ordering::Relaxed), 3, "an update, an eviction, and that updates failed");
    shutdown.cancel();
    running.await.unwrap().unwrap();
}
