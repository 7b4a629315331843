//! Requests that keep coming while a plugin is late now and then.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::scene::{Scene, Temper};
use super::steady::{LATE, Mood};
use crate::tests::fake::SECOND;
use crate::tests::schedules::Random;

/// Runs one schedule. Returns an error text if a promise is broken.
///
/// - If the load is almost three times what the plugin can answer, the plugin is closed after a
///   minute: its backlog does not become shorter.
/// - If the load is at most half of what the plugin can answer, the plugin stays, and receives
///   every event once, in the order of each pod.
pub(super) async fn schedule(seed: u64) -> Option<String> {
    let mut random = Random::of(seed);
    let keep_connected = random.below(2) == 0;
    // A plugin that is not kept connected must not be closed for its strikes.
    let strikes = if keep_connected { 1 + random.below(3) } else { 1000 };
    let sync_timeout = SECOND * 30;
    let temper = Temper {
        is_serial: true,
        is_required: false,
        // Requests that fail are not delivered later.
        on_timeout: "skip",
        keep_connected,
        strikes,
        sync_timeout,
        ..Temper::of(&mut random)
    };
    let per_request = (temper.service * 2 + LATE) / 3;
    let is_light = random.below(2) == 0;
    let gap = if is_light { per_request * 2 } else { per_request / 3 };
    let scene = Scene::new(temper.clone(), Random(random.below(u64::MAX) | 1)).await;
    assert!(scene.join().await);
    let stop = CancellationToken::new();
    let load = tokio::spawn(Arc::clone(&scene.load).run(gap, stop.clone()));
    sleep(random.millis(5000)).await;
    scene.plugin.is(Mood::Stumbles);
    sleep(SECOND * 60 + random.millis(10_000)).await;
    let state = scene.state();
    stop.cancel();
    load.await.unwrap();
    scene.plugin.is(Mood::Well);
    sleep(Duration::from_secs(20)).await;
    let wrong = match (is_light, state) {
        (true, None) => Some("it was closed although its backlog became shorter".to_owned()),
        (false, Some(state)) => Some(format!("it is {state} although its backlog does not become shorter")),
        (true, Some(_)) => scene.check_even(),
        (false, None) => None,
    };
    let wrong = wrong.or_else(|| scene.check_told(false)).or_else(|| scene.check_calls());
    scene.nri.stop().await;
    wrong.map(|wrong| format!("{wrong}; gap {gap:?}, {temper:?}"))
}
