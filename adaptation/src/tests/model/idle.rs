//! A node without further requests, while a plugin is suspended.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::scene::{Scene, Temper};
use super::steady::Mood;
use crate::api::health::State;
use crate::tests::fake::SECOND;
use crate::tests::schedules::Random;

/// Runs one schedule. Returns an error text if a promise is broken.
///
/// - A suspended plugin that has answered all overdue requests receives its backlog at once, and
///   becomes active.
/// - A suspended plugin without overdue answers receives its backlog after its pause, and becomes
///   active. Without a backlog, the next request is its probe.
pub(super) async fn schedule(seed: u64) -> Option<String> {
    let mut random = Random::of(seed);
    let temper =
        Temper { is_required: false, keep_connected: true, sync_timeout: SECOND * 30, ..Temper::of(&mut random) };
    let scene = Scene::new(temper.clone(), Random(random.below(u64::MAX) | 1)).await;
    assert!(scene.join().await);
    let stop = CancellationToken::new();
    let gap = temper.service * (2 + u32::try_from(random.below(5)).unwrap());
    let load = tokio::spawn(Arc::clone(&scene.load).run(gap, stop.clone()));
    sleep(random.millis(5000)).await;
    let begun = Instant::now();
    let first = if random.below(2) == 0 { Mood::Hangs } else { Mood::GivesUp };
    scene.plugin.is(first);
    sleep(random.millis(15_000)).await;
    stop.cancel();
    load.await.unwrap();
    sleep(random.millis(60_000)).await;
    let gives_up = first == Mood::GivesUp || random.below(4) == 0;
    if first == Mood::Hangs && gives_up {
        // The plugin answers late, and then gives up on further requests, so it is suspended again
        // for a longer time.
        scene.plugin.is(Mood::GivesUp);
        sleep(random.millis(30_000)).await;
    }
    let unwell = begun.elapsed();
    scene.plugin.is(Mood::Well);
    let n_calls = u32::try_from(scene.load.calls().len()).unwrap();
    // A pause is at most as long as all earlier pauses together plus 20 s, because each pause is
    // twice as long as the one before, and only the first may have been cut short.
    let pause = if gives_up { (unwell + SECOND * 20).min(SECOND * 300) } else { Duration::ZERO };
    sleep(pause + temper.service * (n_calls + 1)).await;
    let mut wrong = scene.check_told(true);
    if gives_up && scene.state() == Some(State::Suspended) {
        // The plugin has no backlog, so nothing has probed it.
        scene.load.call(u64::MAX, 0).await;
        sleep(temper.service).await;
    }
    wrong = wrong.or_else(|| scene.check_even()).or_else(|| scene.check_calls());
    scene.nri.stop().await;
    wrong.map(|wrong| format!("{wrong}; {first:?}, gives up: {gives_up}, for {unwell:?}, {temper:?}"))
}
