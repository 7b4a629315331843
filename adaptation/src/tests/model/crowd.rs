//! Several plugins on one node under load. Each plugin is unwell at times of its own.

use std::sync::Arc;
use std::time::Duration;

use nri_proto::PluginId;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::load::Load;
use super::scene::Temper;
use super::steady::{Mood, Steady};
use super::waits::{Promise, check_required, check_told, check_waits};
use crate::Adaptation;
use crate::Config;
use crate::api::health::State;
use crate::api::plugin::Plugin;
use crate::tests::fake::{FakeSource, SECOND};
use crate::tests::schedules::Random;

/// A plugin that is unwell at times.
struct Member {
    id: PluginId,
    temper: Temper,
    plugin: Arc<Steady>,
}

impl Member {
    fn new(number: u64, random: &mut Random) -> Self {
        let temper = Temper { sync_timeout: SECOND * 20, ..Temper::of(random) };
        let plugin = Steady::new(temper.service, temper.synchronizes);
        Self { id: format!("{number}0-m{number}").parse().unwrap(), temper, plugin }
    }

    /// Joins at some time, and is then unwell several times. In the end, the plugin is well.
    async fn live(&self, nri: &Adaptation, mut random: Random) {
        sleep(random.millis(10_000)).await;
        // A plugin that fails to join receives nothing.
        let _ = nri.admit(self.id.clone(), Arc::clone(&self.plugin) as Arc<dyn Plugin>).await;
        for _ in 0..random.below(4) {
            sleep(random.millis(15_000)).await;
            self.plugin.is(if random.below(3) == 0 { Mood::GivesUp } else { Mood::Hangs });
            sleep(random.millis(15_000)).await;
            self.plugin.is(Mood::Well);
        }
    }

    fn state(&self, nri: &Adaptation) -> Option<State> {
        nri.plugins().into_iter().find(|status| status.id == self.id).map(|status| status.state)
    }

    fn promise(&self) -> Promise {
        // Required plugins may delay requests until they have caught up, by `join_timeout` at most.
        let gates_wait = if self.temper.is_required { SECOND * 10 } else { Duration::ZERO };
        Promise { request_timeout: SECOND * 2, is_serial: self.temper.is_serial, gates_wait }
    }

    /// Returns an error text if the plugin missed an event, received a wrong one, or was required
    /// and a request succeeded without it.
    fn check(&self, nri: &Adaptation, load: &Load) -> Option<String> {
        let (calls, deliveries) = (load.calls(), self.plugin.deliveries());
        let shown = self.plugin.shown()?;
        let state = self.state(nri);
        let stuck = state.filter(|state| *state != State::Active).map(|state| format!("its state is {state:?}"));
        let told = || check_told(&calls, &deliveries, shown, Instant::now(), state.is_some());
        let required = || check_required(&calls, &deliveries, SECOND * 2);
        stuck.or_else(told).or_else(|| self.temper.is_required.then(required).flatten())
    }
}

/// Runs one schedule. Returns an error text if a promise is broken.
///
/// - A request does not wait for the backlog of plugins that it does not need, however many plugins
///   are behind.
/// - Each plugin receives every event once, in the order of each pod, and is active in the end.
pub(super) async fn schedule(seed: u64) -> Option<String> {
    let mut random = Random::of(seed);
    let members: Vec<_> = (1..=2 + random.below(3)).map(|number| Member::new(number, &mut random)).collect();
    let policy: String = members.iter().map(|member| member.temper.policy(member.id.name())).collect();
    let config = Config { socket: None, ..Config::from_toml(&policy).unwrap() };
    let nri = Arc::new(Adaptation::new(config, Arc::new(FakeSource)));
    let load = Load::new(&nri, Random(random.below(u64::MAX) | 1));
    let stop = CancellationToken::new();
    let gap = Duration::from_millis(150 + random.below(200));
    let requests = tokio::spawn(Arc::clone(&load).run(gap, stop.clone()));
    let lives = members.iter().map(|member| member.live(&nri, Random(random.below(u64::MAX) | 1)));
    futures_util::future::join_all(lives).await;
    sleep(random.millis(20_000)).await;
    stop.cancel();
    requests.await.unwrap();
    sleep(SECOND * 700).await;
    // A suspended plugin without a backlog is probed by the next request.
    for number in 0..3 {
        load.call(u64::MAX - number, 0).await;
        sleep(SECOND * 5).await;
    }
    let plugins: Vec<_> = members.iter().map(|member| (member.plugin.deliveries(), member.promise())).collect();
    let wrong =
        members.iter().find_map(|member| member.check(&nri, &load).map(|wrong| format!("{}: {wrong}", member.id)));
    let wrong = wrong.or_else(|| check_waits(&load.calls(), &plugins));
    nri.stop().await;
    let tempers: Vec<_> = members.iter().map(|member| &member.temper).collect();
    wrong.map(|wrong| format!("{wrong}; gap {gap:?}, {tempers:?}"))
}
