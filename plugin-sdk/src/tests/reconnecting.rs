use std::collections::VecDeque;
use std::future::{pending, ready};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nri_proto::{EventMask, api};
use tokio::time::Instant;

use super::fake::{FakePlugin, FakeRuntime, Manner, Running, SECOND, introduction, starts};
use crate::{Backoff, Connection, Options, Stream};

/// Runs a plugin that gets these connections in order. Later attempts to connect fail.
fn among(streams: Vec<Stream>, plugin: FakePlugin) -> (Running, Attempts) {
    let attempts = Attempts::default();
    let (mut left, begun, noted) = (VecDeque::from(streams), Instant::now(), attempts.clone());
    let dial = move || {
        noted.0.lock().unwrap().push(begun.elapsed());
        ready(left.pop_front().ok_or_else(|| io::ErrorKind::ConnectionRefused.into()))
    };
    let connection = Connection::dial(dial);
    (Running::with(plugin, Options { connection, ..Options::default() }), attempts)
}

/// The times of the attempts to connect.
#[derive(Clone, Default)]
struct Attempts(Arc<Mutex<Vec<Duration>>>);

impl Attempts {
    fn times(&self) -> Vec<Duration> {
        self.0.lock().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_of_the_runtime_the_plugin_is_synchronized_anew() {
    let ((first, one), (second, other)) = (FakeRuntime::new(Manner::Accepts), FakeRuntime::new(Manner::Accepts));
    let (running, _) = among(vec![one, other], starts());
    first.admit().await;
    first.start("c1").await.unwrap();
    first.mux.close();

    tokio::time::sleep(SECOND).await;
    second.admit().await;
    second.start("c2").await.unwrap();
    let expected =
        ["Synchronize 0 0", "StartContainer c1", "started c1", "Synchronize 0 0", "StartContainer c2", "started c2"];
    assert_eq!(running.plugin.lines(), expected);
    running.runtime.update(Vec::new(), Vec::new()).await.unwrap();
    assert_eq!(second.heard.updates().len(), 1, "the same handle reaches the new runtime");
}

#[tokio::test(start_paused = true)]
async fn a_handler_whose_runtime_leaves_runs_to_its_end() {
    let ((first, one), (second, other)) = (FakeRuntime::new(Manner::Accepts), FakeRuntime::new(Manner::Accepts));
    let (running, _) = among(vec![one, other], FakePlugin { takes: SECOND, ..starts() });
    first.admit().await;
    let leaving = async {
        tokio::time::sleep(SECOND / 2).await;
        first.mux.close();
    };
    let (answer, ()) = tokio::join!(first.start("c1"), leaving);
    assert!(answer.is_err());
    second.admit().await;
    assert_eq!(running.plugin.lines(), ["Synchronize 0 0", "StartContainer c1", "started c1", "Synchronize 0 0"]);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_restarts_are_a_hundred_synchronizations() {
    let (runtimes, streams): (Vec<_>, Vec<_>) = (0..100).map(|_| FakeRuntime::new(Manner::Accepts)).unzip();
    let (running, _) = among(streams, starts());
    for runtime in &runtimes {
        runtime.admit().await;
        runtime.start("c").await.unwrap();
        runtime.mux.close();
        tokio::time::sleep(SECOND).await;
    }
    let expected = ["Synchronize 0 0", "StartContainer c", "started c"].repeat(100);
    assert_eq!(running.plugin.lines(), expected);
    assert_eq!(Arc::strong_count(&running.plugin), 2, "the test's and the runner's");
}

#[tokio::test(start_paused = true)]
async fn half_a_synchronization_is_not_continued_by_the_next_runtime() {
    let ((first, one), (second, other)) = (FakeRuntime::new(Manner::Accepts), FakeRuntime::new(Manner::Accepts));
    let ((third, another), mut streams) = (FakeRuntime::new(Manner::Accepts), vec![one, other]);
    streams.push(another);
    let (running, _) = among(streams, starts());
    first.admit().await;
    first.mux.close();
    tokio::time::sleep(SECOND).await;
    second.registered().await;
    let _: api::ConfigureResponse = second.call("Configure", &introduction()).await.unwrap();
    let half = api::SynchronizeRequest { pods: vec![api::PodSandbox::new()], more: true, ..Default::default() };
    let _: api::SynchronizeResponse = second.call("Synchronize", &half).await.unwrap();
    second.mux.close();
    tokio::time::sleep(SECOND).await;
    third.admit().await;
    assert_eq!(running.plugin.lines(), ["Synchronize 0 0", "Synchronize 0 0"]);
}

#[tokio::test(start_paused = true)]
async fn attempts_come_less_and_less_often() {
    let (first, one) = FakeRuntime::new(Manner::Accepts);
    let (running, attempts) = among(vec![one], starts());
    first.admit().await;
    first.mux.close();
    tokio::time::sleep(60 * SECOND).await;
    let times = attempts.times();
    let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let most = Duration::from_secs(5) + Duration::from_millis(2);
    assert!(gaps.iter().all(|gap| *gap <= most), "{gaps:?}");
    assert!(gaps[0] < SECOND / 5 && gaps[gaps.len() - 1] >= 2 * SECOND, "{gaps:?}");
    assert!((12..40).contains(&times.len()), "{times:?}");
    running.shutdown.cancel();
    assert_eq!(running.ended().await, "well");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_lets_it_in_and_out_again_is_not_stormed() {
    let (runtimes, streams): (Vec<_>, Vec<_>) = (0..6).map(|_| FakeRuntime::new(Manner::Accepts)).unzip();
    let (running, attempts) = among(streams, starts());
    for runtime in &runtimes {
        runtime.admit().await;
        runtime.mux.close();
    }
    let times = attempts.times();
    let gaps: Vec<_> = times.windows(2).take(5).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps[0] < SECOND / 5 && gaps[4] >= SECOND / 2, "{gaps:?}");
    running.shutdown.cancel();
    assert_eq!(running.ended().await, "well");
}

#[test]
fn each_wait_is_twice_the_last_up_to_a_limit() {
    let backoff = Backoff::default();
    assert_eq!(backoff.delay(0, 0), Duration::from_millis(50));
    assert!(backoff.delay(0, 1023) <= Duration::from_millis(100));
    assert_eq!(backoff.delay(1, 0), Duration::from_millis(100));
    assert_eq!(backoff.delay(200, 0), Duration::from_millis(2500));
}

#[tokio::test(start_paused = true)]
async fn the_first_connection_must_succeed() {
    let (running, attempts) = among(Vec::new(), starts());
    assert_eq!(running.ended().await, "could not use the connection to the runtime: connection refused");
    assert_eq!(attempts.times().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_never_made_is_given_up_in_time_and_at_once_when_the_plugin_stops() {
    let running = Running::new(starts(), Connection::dial(pending));
    let begun = Instant::now();
    assert_eq!(running.ended().await, "could not use the connection to the runtime: timed out");
    assert_eq!(begun.elapsed(), 5 * SECOND);

    let running = Running::new(starts(), Connection::dial(pending));
    tokio::time::sleep(SECOND).await;
    let begun = Instant::now();
    running.shutdown.cancel();
    assert_eq!(running.ended().await, "well");
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_gives_more_time_to_register_is_given_it_when_it_is_back() {
    for (told, waits) in [(30_000, 30 * SECOND), (1_000, 5 * SECOND), (i64::MAX, 3600 * SECOND)] {
        let ((first, one), (_second, other)) = (FakeRuntime::new(Manner::Accepts), FakeRuntime::new(Manner::Hangs));
        let (_running, attempts) = among(vec![one, other], starts());
        first.registered().await;
        let request = api::ConfigureRequest { registration_timeout: told, ..introduction() };
        let _: api::ConfigureResponse = first.call("Configure", &request).await.unwrap();
        let _: api::SynchronizeResponse = first.call("Synchronize", &api::SynchronizeRequest::new()).await.unwrap();
        first.mux.close();
        while attempts.times().len() < 3 {
            tokio::time::sleep(SECOND / 10).await;
        }
        let waited = attempts.times()[2] - attempts.times()[1];
        assert!((waits..waits + 2 * SECOND).contains(&waited), "told {told} ms, waited {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_want_to_reconnect_ends() {
    let (first, one) = FakeRuntime::new(Manner::Accepts);
    let mut one = Some(one);
    let dial = move || ready(one.take().ok_or_else(|| io::ErrorKind::ConnectionRefused.into()));
    let connection = Connection::dial(dial);
    let running = Running::with(starts(), Options { connection, reconnect: None, ..Options::default() });
    first.admit().await;
    first.mux.close();
    assert_eq!(running.ended().await, "the connection to the runtime was lost: the peer closed the connection");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_leaves_at_an_event_it_does_not_know_is_asked_for_less() {
    let ((first, one), (second, other)) = (FakeRuntime::new(Manner::Accepts), FakeRuntime::new(Manner::Accepts));
    let (_running, attempts) = among(vec![one, other], FakePlugin::on(EventMask::ALL));
    // Such a runtime has NRI 0.7 to 0.10, and does not report which.
    let old = api::ConfigureRequest { NRI_version: String::new(), ..introduction() };
    first.registered().await;
    let answer: api::ConfigureResponse = first.call("Configure", &old).await.unwrap();
    assert_eq!(EventMask::from_wire(answer.events).strict(), Ok(EventMask::ALL));
    first.mux.close();

    second.registered().await;
    let answer: api::ConfigureResponse = second.call("Configure", &old).await.unwrap();
    assert_eq!(answer.events, (1 << 11) - 1);
    assert_eq!(attempts.times(), [Duration::ZERO; 2], "and at once");
}
