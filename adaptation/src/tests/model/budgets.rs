//! The time that the silence of several plugins costs one request.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::Notice;
use crate::Plugin;
use crate::tests::fake::{Diary, FakePlugin, LIFE, Manner, SECOND, adaptation, pod};
use crate::tests::schedules::Random;

/// Runs one schedule. Returns an error text if a promise is broken.
///
/// Silent plugins cost a request at most three request timeouts in total. The time of answers is
/// not counted.
pub(super) async fn schedule(seed: u64) -> Option<String> {
    let mut random = Random::of(seed);
    let diary = Diary::default();
    let nri = adaptation("plugin_defaults.strikes = 1000", &[]).await;
    let (mut answers, mut manners) = (Duration::ZERO, Vec::new());
    for number in 0..1 + random.below(12) {
        let manner = match random.below(3) {
            0 => Manner::Never,
            1 => Manner::After(SECOND * 2 + Duration::from_millis(1) + random.millis(3000)),
            _ => {
                let time = random.millis(500);
                answers += time;
                Manner::After(time)
            }
        };
        manners.push(manner);
        let id = format!("{number:02}-a");
        let plugin = FakePlugin::new(&id, LIFE, manner, &diary);
        nri.admit(id.parse().unwrap(), plugin as Arc<dyn Plugin>).await.unwrap();
    }
    let before = Instant::now();
    let operation = nri.begin(pod("p"));
    let outcome = if random.below(2) == 0 {
        operation.notify(Notice::RunPod).await
    } else {
        operation.notify(Notice::StopPod).await
    };
    let (took, limit) = (before.elapsed(), SECOND * 6 + answers);
    operation.commit();
    nri.stop().await;
    if let Err(error) = outcome {
        return Some(format!("it failed: {error}"));
    }
    (took > limit).then(|| format!("a request took {took:?}, which is more than {limit:?}, with {manners:?}"))
}
