//! Runtimes that hang, disconnect or send invalid data, at each step.

use std::sync::Arc;

use nri_proto::api;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::fake::{FakeRuntime, Manner, Running, SECOND, introduction, pair, starts};
use crate::{Connection, Options, Stream};

async fn configured(runtime: &FakeRuntime) {
    runtime.registered().await;
    let _: api::ConfigureResponse = runtime.call("Configure", &introduction()).await.unwrap();
}

/// Checks that the plugin ends with this error, after so many seconds, and that no task keeps it.
async fn check(running: Running, runtime: FakeRuntime, seconds: u32, expected: &str) {
    let (begun, plugin) = (Instant::now(), Arc::clone(&running.plugin));
    assert_eq!(running.ended().await, expected);
    assert!(begun.elapsed() >= seconds * SECOND && begun.elapsed() < (seconds + 1) * SECOND, "{:?}", begun.elapsed());
    runtime.mux.closed().await;
    tokio::task::yield_now().await;
    assert_eq!(Arc::strong_count(&plugin), 1, "something still holds the plugin");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_does_not_answer_the_registration_is_given_up() {
    let (runtime, running) = pair(Manner::Hangs, starts());
    check(running, runtime, 5, "could not register with the runtime: no reply in time").await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_does_not_configure_is_given_up() {
    let (runtime, running) = pair(Manner::Accepts, starts());
    check(running, runtime, 5, "the runtime did not configure the plugin in time").await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_does_not_synchronize_is_given_up() {
    let (runtime, running) = pair(Manner::Accepts, starts());
    configured(&runtime).await;
    check(running, runtime, 60, "the runtime did not synchronize the plugin in time").await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_leaves_during_the_registration_is_an_error_at_once() {
    let (runtime, running) = pair(Manner::Hangs, starts());
    runtime.registered().await;
    runtime.mux.close();
    let expected =
        "could not register with the runtime: the connection ended before the reply: the peer closed the connection";
    check(running, runtime, 0, expected).await;
}

#[tokio::test(start_paused = true)]
async fn u21_a_runtime_that_leaves_between_registration_and_configuration_is_an_error_at_once() {
    let (runtime, running) = pair(Manner::Accepts, starts());
    runtime.registered().await;
    // By now, the plugin has the reply to its registration.
    tokio::time::sleep(SECOND).await;
    runtime.mux.close();
    let expected = "the runtime left before it had configured the plugin: the peer closed the connection";
    check(running, runtime, 0, expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_leaves_before_it_synchronizes_is_an_error_at_once() {
    let (runtime, running) = pair(Manner::Accepts, starts());
    configured(&runtime).await;
    let half = api::SynchronizeRequest { more: true, ..Default::default() };
    let _: api::SynchronizeResponse = runtime.call("Synchronize", &half).await.unwrap();
    runtime.mux.close();
    let expected = "the runtime left before it had synchronized the plugin: the peer closed the connection";
    check(running, runtime, 0, expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_leaves_is_an_error_at_once() {
    let (runtime, running) = pair(Manner::Accepts, starts());
    runtime.admit().await;
    runtime.mux.close();
    check(running, runtime, 0, "the connection to the runtime was lost: the peer closed the connection").await;
}

/// Returns how a plugin ends whose runtime sends these bytes after the registration.
async fn after(bytes: &[u8]) -> String {
    let (mut ours, theirs) = tokio::io::duplex(64 << 10);
    let (reader, writer) = tokio::io::split(theirs);
    let connection = Connection::Stream(Stream::over(reader, writer));
    let running = Running::new(starts(), connection);
    let mut registration = [0; 8];
    ours.read_exact(&mut registration).await.unwrap();
    ours.write_all(bytes).await.unwrap();
    running.ended().await
}

#[tokio::test(start_paused = true)]
async fn nonsense_is_an_error_within_the_limit_of_the_step() {
    let frame = |channel: u32, payload: &[u8]| {
        [&channel.to_be_bytes()[..], &u32::try_from(payload.len()).unwrap().to_be_bytes(), payload].concat()
    };
    let reply = |payload: &[u8]| {
        let header = [&u32::try_from(payload.len()).unwrap().to_be_bytes()[..], &1_u32.to_be_bytes(), &[2, 0]].concat();
        frame(2, &[&header, payload].concat())
    };
    let register = "could not register with the runtime";
    for (bytes, expected) in [
        (vec![0xff; 64], "a frame of 4294967295 bytes"),
        (frame(0, b"x"), "the reserved channel 0"),
        (frame(7, b"nobody"), "no reply in time"),
        (frame(2, b"short"), "no reply in time"),
        (reply(&[0xff; 9]), "the reply cannot be read"),
        (frame(1, &[0xff; 10]), "no reply in time"),
    ] {
        let begun = Instant::now();
        let ended = after(&bytes).await;
        assert!(ended.starts_with(register) && ended.contains(expected), "{bytes:?}: {ended}");
        assert!(begun.elapsed() <= 6 * SECOND, "{bytes:?}: {:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn no_step_takes_longer_than_the_options_say() {
    let (runtime, stream) = FakeRuntime::new(Manner::Hangs);
    let connection = Connection::Stream(stream);
    let running = Running::with(starts(), Options { connection, registration_timeout: SECOND, ..Options::default() });
    check(running, runtime, 1, "could not register with the runtime: no reply in time").await;
}
