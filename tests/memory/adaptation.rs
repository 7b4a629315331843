//! The memory that a plugin costs a runtime.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::{Adaptation, Config, Notice, Source, UpdatesFailed};
use nri_proto::{Eviction, PluginId, Pod, Update, api};
use nri_tests::wire::{RUNTIME, encode, frame, message, request, response};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::{Count, KIB, MIB, alone};

/// A runtime that never finishes applying the updates of a plugin.
struct Stuck;

#[async_trait]
impl Source for Stuck {
    async fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }

    async fn apply(&self, _: &PluginId, updates: Vec<Update>, _: Vec<Eviction>) -> Result<Vec<Update>, UpdatesFailed> {
        std::future::pending::<()>().await;
        Ok(updates)
    }
}

/// Returns requests that are never completed: many small updates, then few large ones.
fn updates(first: u32) -> Vec<u8> {
    let empty = [0x0a, 0].repeat(500);
    let large = api::ContainerUpdate { container_id: "x".repeat(MIB), ..Default::default() };
    let large = encode(&api::UpdateContainersRequest { update: vec![large], ..Default::default() });
    let small = (0..30).flat_map(|number| request(first + 2 * number, RUNTIME, "UpdateContainers", empty.clone()));
    let large = (30..40).flat_map(|number| request(first + 2 * number, RUNTIME, "UpdateContainers", large.clone()));
    small.chain(large).collect()
}

/// Returns the largest message without its end.
fn unfinished(channel: u32) -> Vec<u8> {
    let message = message(2, 9, &vec![0; 4 * MIB]);
    message[..4 * MIB].chunks(64 * KIB).flat_map(|part| frame(channel, part)).collect()
}

/// Returns requests that are refused.
fn refused() -> Vec<u8> {
    (0..150_000).flat_map(|_| request(2, "nobody", "nothing", Vec::new())).collect()
}

/// Returns frames that exceed the limit of a channel, so that the connection is closed.
fn flood(channel: u32) -> Vec<u8> {
    frame(channel, &[0; 64 * KIB]).repeat(300)
}

#[test]
fn a_plugin_never_makes_us_hold_more_than_16_mib() {
    alone(async {
        let reply = || frame(1, &message(2, 5, &vec![0; 4 * MIB]));
        let stories: [(&str, &dyn Fn() -> Vec<u8>); 5] = [
            ("unfinished", &|| [unfinished(1), unfinished(2), flood(1)].concat()),
            ("updates", &|| [updates(3), unfinished(2), unfinished(1), flood(2)].concat()),
            ("refused", &|| [refused(), unfinished(1)].concat()),
            ("everything", &|| [updates(3), unfinished(1), refused(), flood(2)].concat()),
            ("replies", &|| reply().repeat(4)),
        ];
        for (name, wire) in stories {
            let most = most_held(&wire()).await;
            assert!(most <= 16 * MIB, "{name}: {most} bytes held");
            assert!(most >= MIB, "{name}: only {most} bytes held, it did nothing");
        }
    });
}

/// Returns the most memory that was in use while a plugin that never reads sends these bytes, and
/// requests are made.
async fn most_held(wire: &[u8]) -> usize {
    let config = "plugin_defaults = { request_timeout = \"20ms\", strikes = 1000000 }";
    let nri = Adaptation::new(Config { socket: None, ..Config::from_toml(config).unwrap() }, Arc::new(Stuck));
    let mut plugin = joined(&nri).await;
    let pod = Pod { annotations: [("a".to_owned(), "x".repeat(64 * KIB))].into(), ..Pod::default() };
    let count = Count::begin();
    let mut most = 0;
    for (number, part) in wire.chunks(16 * KIB).enumerate() {
        let writing = tokio::time::timeout(Duration::from_millis(200), plugin.write_all(part));
        if !matches!(writing.await, Ok(Ok(()))) {
            break;
        }
        // The journal of the plugin holds fifteen of these requests.
        if number % 16 == 0 && number / 16 < 15 {
            nri.begin(pod.clone()).notify(Notice::StopPod).await.unwrap();
        }
        tokio::task::yield_now().await;
        most = most.max(count.held());
    }
    // A stop would wait for the updates, which never complete.
    drop(nri);
    most
}

/// Lets a plugin join, and returns its end of the connection after it has read its requests.
async fn joined(nri: &Adaptation) -> UnixStream {
    let (mut plugin, ours) = UnixStream::pair().unwrap();
    let (reader, writer) = ours.into_split();
    nri.attach(reader, writer);
    let id = api::RegisterPluginRequest {
        plugin_name: "hostile".to_owned(),
        plugin_idx: "10".to_owned(),
        ..Default::default()
    };
    plugin.write_all(&request(1, RUNTIME, "RegisterPlugin", encode(&id))).await.unwrap();
    let mut answered = 0;
    while answered < 2 {
        let (channel, length) = (plugin.read_u32().await.unwrap(), plugin.read_u32().await.unwrap());
        plugin.read_exact(&mut vec![0; length as usize]).await.unwrap();
        if channel == 1 {
            plugin.write_all(&response(1 + 2 * answered, Vec::new())).await.unwrap();
            answered += 1;
        }
    }
    while nri.plugins().is_empty() {
        tokio::task::yield_now().await;
    }
    plugin
}
