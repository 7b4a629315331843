//! Requests that keep coming while a plugin joins, or catches up after it was silent or suspended.

use std::sync::Arc;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::scene::{Scene, Temper};
use super::steady::Mood;
use crate::tests::fake::SECOND;
use crate::tests::schedules::Random;

/// Runs one schedule. Returns an error text if a promise is broken.
///
/// - A request waits for no backlog, unless the event can be vetoed and the plugin is required.
/// - If the load is at most half of what the plugin can answer, the plugin has caught up 10 s after
///   it has answered the overdue requests, or 10 s after its pause if nothing was overdue.
/// - The plugin receives every event once, in the order of each pod.
pub(super) async fn schedule(seed: u64) -> Option<String> {
    let mut random = Random::of(seed);
    let temper = Temper::of(&mut random);
    // At most half the load that the plugin can answer, or almost all of it.
    let is_light = random.below(2) == 0;
    let gap = if is_light {
        temper.service * (2 + u32::try_from(random.below(3)).unwrap())
    } else {
        temper.service * (10 + u32::try_from(random.below(6)).unwrap()) / 10
    };
    let scene = Arc::new(Scene::new(temper.clone(), Random(random.below(u64::MAX) | 1)).await);
    let stop = CancellationToken::new();
    let load = tokio::spawn(Arc::clone(&scene.load).run(gap, stop.clone()));
    sleep(random.millis(3000)).await;
    let joining = tokio::spawn({
        let scene = Arc::clone(&scene);
        async move { scene.join().await }
    });
    sleep(temper.synchronizes + SECOND * 10).await;
    let mut wrong = is_light.then(|| scene.check_even()).flatten().or_else(|| scene.check_calls());
    wrong = wrong.map(|wrong| format!("since it joined: {wrong}"));
    for _ in 0..=random.below(2) {
        wrong = wrong.or(unwell(&scene, &mut random, is_light).await);
    }
    stop.cancel();
    load.await.unwrap();
    scene.plugin.is(Mood::Well);
    let has_joined = joining.await.unwrap();
    sleep(SECOND * 100).await;
    wrong = wrong.or_else(|| scene.check_told(false)).or_else(|| scene.check_calls());
    if is_light && !has_joined {
        wrong = wrong.or_else(|| Some("it did not join".to_owned()));
    }
    scene.nri.stop().await;
    wrong.map(|wrong| format!("{wrong}; gap {gap:?}, {temper:?}"))
}

/// Makes the plugin unwell for some seconds, and then well again. Returns an error text if the
/// plugin has not caught up in time.
async fn unwell(scene: &Scene, random: &mut Random, is_light: bool) -> Option<String> {
    sleep(random.millis(10_000)).await;
    let mood = if random.below(3) == 0 { Mood::GivesUp } else { Mood::Hangs };
    scene.plugin.is(mood);
    let begun = Instant::now();
    sleep(random.millis(if is_light { 8000 } else { 20_000 })).await;
    let unwell = begun.elapsed();
    scene.plugin.is(Mood::Well);
    // If the plugin hung, its answers are overdue by now. If the plugin gave up, nothing is
    // overdue, and the plugin is probed after a pause of 10 s during which the backlog grows.
    sleep(if mood == Mood::GivesUp { SECOND * 20 } else { SECOND * 10 }).await;
    scene.state().filter(|_| is_light)?;
    scene.check_even().map(|why| format!("not even after it was well again, {mood:?} for {unwell:?}: {why}"))
}
