use nri_proto::api;
use tokio::time::Instant;

use super::fake::{FakePlugin, Manner, SECOND, pair, starts};

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_told_to_stop_answers_what_it_was_asked() {
    let (runtime, running) = pair(Manner::Accepts, FakePlugin { takes: SECOND, ..starts() });
    runtime.admit().await;
    let shutdown = running.shutdown.clone();
    let stopping = async {
        tokio::time::sleep(SECOND / 2).await;
        shutdown.cancel();
    };
    let (answer, ()) = tokio::join!(runtime.start("c1"), stopping);
    answer.unwrap();
    assert_eq!(running.ended().await, "well");
    assert_eq!(runtime.mux.closed().await.to_string(), "the peer closed the connection");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_does_not_end_does_not_keep_the_plugin() {
    let (runtime, running) = pair(Manner::Accepts, FakePlugin { takes: 3600 * SECOND, ..starts() });
    runtime.admit().await;
    let _ = runtime.start("c1").await;
    running.shutdown.cancel();
    let begun = Instant::now();
    assert_eq!(running.ended().await, "well");
    assert_eq!(begun.elapsed(), 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_can_be_stopped_at_any_step() {
    for manner in [Manner::Hangs, Manner::Accepts, Manner::ConfiguresFirst] {
        let (runtime, running) = pair(manner, starts());
        runtime.registered().await;
        running.shutdown.cancel();
        let begun = Instant::now();
        assert_eq!(running.ended().await, "well", "{manner:?}");
        assert!(begun.elapsed() < SECOND, "{manner:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_says_goodbye_was_not_lost() {
    let (runtime, running) = pair(Manner::Accepts, starts());
    runtime.admit().await;
    let _: api::Empty = runtime.call("Shutdown", &api::Empty::new()).await.unwrap();
    assert_eq!(running.plugin.lines().last().unwrap(), "Shutdown");
    runtime.mux.close();
    assert_eq!(running.ended().await, "well");
}
