use nri_proto::Eviction;
use tokio::time::Instant;

use super::fake::{FakePlugin, Manner, SECOND, pair, starts};
use crate::{Update, UpdateError};

#[tokio::test(start_paused = true)]
async fn a_handler_may_ask_for_updates_while_the_runtime_waits_for_it() {
    let (runtime, running) = pair(Manner::Accepts, FakePlugin { updates: Some("broken"), ..starts() });
    runtime.admit().await;
    runtime.start("c1").await.unwrap();
    assert_eq!(runtime.heard.updates()[0].update[0].container_id, "broken");
    assert_eq!(running.plugin.lines()[1..], ["StartContainer c1", "failed 1", "started c1"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_does_not_wait_longer_for_an_update_than_the_runtime_for_it() {
    let (runtime, running) = pair(Manner::Accepts, FakePlugin { updates: Some("stuck"), ..starts() });
    runtime.admit().await;
    let begun = Instant::now();
    runtime.start("c1").await.unwrap_err();
    tokio::time::sleep(SECOND / 10).await;
    assert_eq!(running.plugin.lines()[1..], ["StartContainer c1"]);
    assert!(begun.elapsed() < 3 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_a_handler_has_kept_has_all_the_time_when_the_handler_is_over() {
    let (runtime, running) = pair(Manner::Accepts, FakePlugin { takes: SECOND, ..starts() });
    runtime.admit().await;
    let asking = async || {
        let kept = running.plugin.kept.lock().unwrap().clone().unwrap();
        let begun = Instant::now();
        kept.update(vec![Update::of("stuck")], Vec::new()).await.unwrap_err();
        begun.elapsed()
    };
    let during = async {
        tokio::time::sleep(SECOND / 2).await;
        asking().await
    };
    let (started, waited) = tokio::join!(runtime.start("c1"), during);
    started.unwrap();
    assert!(waited < 3 * SECOND / 2, "of the 1.5 s that were left: {waited:?}");
    assert_eq!(asking().await, 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn updates_and_evictions_can_be_asked_for_from_anywhere() {
    let (runtime, running) = pair(Manner::Accepts, starts());
    runtime.admit().await;
    let updates = vec![Update::of("broken"), Update::of("c2")];
    let failed = running.runtime.update(updates, vec![Eviction::new("c3", "make room")]).await.unwrap();
    assert_eq!(failed.iter().map(|update| &*update.container_id).collect::<Vec<_>>(), ["broken"]);
    assert_eq!(runtime.heard.updates()[0].evict[0].reason, "make room");
}

#[tokio::test(start_paused = true)]
async fn an_update_that_is_not_answered_is_an_error_in_time() {
    let (runtime, running) = pair(Manner::Accepts, starts());
    runtime.admit().await;
    let begun = Instant::now();
    let error = running.runtime.update(vec![Update::of("stuck")], Vec::new()).await.unwrap_err();
    assert_eq!(crate::chain(&error), "could not update containers: no reply in time");
    assert_eq!(begun.elapsed(), 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn without_a_connection_an_update_is_an_error_at_once() {
    let (runtime, running) = pair(Manner::Accepts, starts());
    let handle = running.runtime.clone();
    let asking = async || handle.update(Vec::new(), Vec::new()).await;
    assert!(matches!(asking().await, Err(UpdateError::NotConnected)), "not connected yet");
    runtime.admit().await;
    assert!(asking().await.is_ok());
    running.shutdown.cancel();
    assert_eq!(running.ended().await, "well");
    assert!(matches!(asking().await, Err(UpdateError::NotConnected)), "not connected any more");
}
