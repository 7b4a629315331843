//! Plugins that fail while they join, by the rows of `docs/faults.md`.

use std::sync::Arc;

use async_trait::async_trait;
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::{Adaptation, Config, Source, UpdatesFailed};
use nri_proto::{Eviction, PluginId, Pod, Update, api};
use nri_tests::wire::{RUNTIME, encode, request};
use protobuf::Message;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};
use ttrpc::Code;

use crate::node::{DONE, Node, SECOND, closed, pod, start};
use crate::raw::{Raw, registration};

/// A01, A03: the peer stalls at each byte of its registration.
#[tokio::test(start_paused = true)]
async fn a03_a_peer_that_stalls_before_it_has_registered_is_closed_in_time() {
    let before = Handle::current().metrics().num_alive_tasks();
    let nri = start("", DONE);
    let wire = request(1, RUNTIME, "RegisterPlugin", encode(&registration("10-a")));
    for length in 0..wire.len() {
        let mut peer = Raw::connect(&nri);
        let begun = Instant::now();
        peer.send(&wire[..length]).await;
        peer.closed().await;
        let took = begun.elapsed();
        assert!(took >= SECOND * 5 && took <= SECOND * 5 + SECOND / 2, "{length} bytes: closed after {took:?}");
    }
    nri.stop().await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), before, "a task is left");
}

/// A21.
#[tokio::test(start_paused = true)]
async fn a21_a_plugin_that_is_not_configured_is_closed_with_the_reason() {
    let nri = start("", DONE);
    let mut happenings = nri.watch();

    let mut refuses = Raw::connect(&nri);
    refuses.register("10-a").await;
    let (id, request) = refuses.asked().await;
    assert_eq!(request.method, "Configure");
    refuses.refuse(id, Code::UNKNOWN, "bad configuration").await;
    assert_eq!(closed(&mut happenings).await, "could not configure plugin 10-a: bad configuration");
    refuses.closed().await;

    let mut silent = Raw::connect(&nri);
    silent.register("10-b").await;
    let begun = Instant::now();
    closed(&mut happenings).await;
    assert!(begun.elapsed() <= SECOND * 2, "{:?}", begun.elapsed());
    silent.closed().await;

    let mut leaves = Raw::connect(&nri);
    leaves.register("10-c").await;
    leaves.asked().await;
    drop(leaves);
    assert_eq!(
        closed(&mut happenings).await,
        "could not configure plugin 10-c: the plugin disconnected before it answered"
    );
    assert!(nri.plugins().is_empty());
    nri.stop().await;
}

/// A22.
#[tokio::test(start_paused = true)]
async fn a22_a_plugin_that_misunderstands_a_split_synchronization_is_closed_with_the_reason() {
    let large = |id| Pod { annotations: [("large".to_owned(), "x".repeat(3 << 20))].into(), ..pod(id) };
    let snapshot = Snapshot { pods: vec![large("a"), large("b")], containers: Vec::new() };
    let nri = start("", Node { snapshot, ..DONE });
    let mut happenings = nri.watch();
    let with_an_update =
        api::SynchronizeResponse { update: vec![Default::default()], more: true, ..Default::default() };
    for answer in [api::SynchronizeResponse::new(), with_an_update] {
        let mut plugin = Raw::connect(&nri);
        plugin.register("10-a").await;
        let (id, _) = plugin.asked().await;
        plugin.answer(id, &api::ConfigureResponse::new()).await;
        let (id, request) = plugin.asked().await;
        assert!(api::SynchronizeRequest::parse_from_bytes(&request.payload).unwrap().more);
        plugin.answer(id, &answer).await;
        let reason = closed(&mut happenings).await;
        assert!(reason.ends_with("plugin does not handle split sync requests"), "{reason}");
        plugin.closed().await;
    }
    nri.stop().await;
}

/// A47: if the runtime panics while it takes the snapshot, no plugin is admitted and nothing is
/// left behind.
#[tokio::test(start_paused = true)]
async fn a47_a_runtime_that_panics_while_a_plugin_joins_closes_it() {
    struct Bad;
    #[async_trait]
    impl Source for Bad {
        async fn snapshot(&self) -> Snapshot {
            panic!("on purpose")
        }
        async fn apply(
            &self,
            _: &PluginId,
            updates: Vec<Update>,
            _: Vec<Eviction>,
        ) -> Result<Vec<Update>, UpdatesFailed> {
            Ok(updates)
        }
    }
    let before = Handle::current().metrics().num_alive_tasks();
    let nri = Adaptation::new(Config { socket: None, ..Config::default() }, Arc::new(Bad));
    let mut plugin = Raw::connect(&nri);
    plugin.register("10-a").await;
    let (id, _) = plugin.asked().await;
    plugin.answer(id, &api::ConfigureResponse::new()).await;
    timeout(SECOND, plugin.closed()).await.expect("its connection is left open");
    timeout(SECOND, nri.settled()).await.expect("it counts as joining for ever");
    nri.stop().await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), before, "a task is left");
}
