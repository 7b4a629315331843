//! A node under load with one plugin that is unwell at times, and others that answer at once.

use std::sync::Arc;
use std::time::Duration;

use nri_proto::PluginId;
use tokio::time::Instant;

use super::load::Load;
use super::steady::Steady;
use super::waits::{Promise, check_required, check_told, check_waits};
use crate::Adaptation;
use crate::Config;
use crate::api::health::State;
use crate::api::plugin::Plugin;
use crate::tests::fake::{FakeSource, SECOND};
use crate::tests::schedules::Random;

/// The plugin that is unwell at times.
const UNWELL: &str = "50-unwell";

/// The policy and the speed of the plugin that is unwell at times.
#[derive(Clone, Debug)]
pub(super) struct Temper {
    pub(super) is_serial: bool,
    pub(super) is_required: bool,
    pub(super) keep_connected: bool,
    pub(super) strikes: u64,
    pub(super) on_timeout: &'static str,
    /// How long the plugin takes for a request.
    pub(super) service: Duration,
    /// How long the plugin takes to synchronize.
    pub(super) synchronizes: Duration,
    pub(super) sync_timeout: Duration,
}

impl Temper {
    pub(super) fn of(random: &mut Random) -> Self {
        let synchronizes = random.millis(8000);
        Self {
            is_serial: random.below(3) > 0,
            is_required: random.below(4) == 0,
            keep_connected: random.below(3) > 0,
            strikes: [1, 2, 3, 1000][usize::try_from(random.below(4)).unwrap()],
            on_timeout: ["skip", "fail"][usize::try_from(random.below(2)).unwrap()],
            // Keeps the requests in flight below 64 even if each takes its request timeout. Further
            // requests would wait for a lane.
            service: Duration::from_millis(40 + random.below(61)),
            synchronizes,
            sync_timeout: synchronizes + SECOND,
        }
    }

    /// Returns the policy for a plugin of this name, in TOML.
    pub(super) fn policy(&self, name: &str) -> String {
        format!(
            "[plugins.{name}]\nrequired = {}\nkeep_connected = {}\nstrikes = {}\non_timeout = '{}'\nconcurrency = '{}'\nsync_timeout = '{}ms'\n",
            self.is_required,
            self.keep_connected,
            self.strikes,
            self.on_timeout,
            if self.is_serial { "serial" } else { "per-pod" },
            self.sync_timeout.as_millis(),
        )
    }
}

/// A node under load with one plugin that is unwell at times.
pub(super) struct Scene {
    pub(super) nri: Arc<Adaptation>,
    pub(super) load: Arc<Load>,
    pub(super) plugin: Arc<Steady>,
    temper: Temper,
}

impl Scene {
    pub(super) async fn new(temper: Temper, random: Random) -> Self {
        let config = Config { socket: None, ..Config::from_toml(&temper.policy("unwell")).unwrap() };
        let nri = Arc::new(Adaptation::new(config, Arc::new(FakeSource)));
        for id in ["10-first", "90-last"] {
            let healthy = Steady::new(Duration::ZERO, Duration::ZERO);
            nri.admit(id.parse().unwrap(), healthy).await.unwrap();
        }
        let plugin = Steady::new(temper.service, temper.synchronizes);
        Self { load: Load::new(&nri, random), nri, plugin, temper }
    }

    /// Admits the plugin. Returns whether that succeeded.
    pub(super) async fn join(&self) -> bool {
        let plugin = Arc::clone(&self.plugin) as Arc<dyn Plugin>;
        self.nri.admit(UNWELL.parse().unwrap(), plugin).await.is_ok()
    }

    /// Returns the health state of the plugin, if it has joined and was not closed.
    pub(super) fn state(&self) -> Option<State> {
        let id: PluginId = UNWELL.parse().unwrap();
        self.nri.plugins().into_iter().find(|status| status.id == id).map(|status| status.state)
    }

    /// Returns an error text if the plugin missed an event or received a wrong one.
    pub(super) fn check_told(&self, is_even: bool) -> Option<String> {
        let shown = self.plugin.shown()?;
        check_told(&self.load.calls(), &self.plugin.deliveries(), shown, Instant::now(), is_even)
    }

    /// Returns an error text if the plugin has not caught up: it has received everything, and
    /// requests ask it.
    pub(super) fn check_even(&self) -> Option<String> {
        match self.state() {
            Some(State::Active) => self.check_told(true),
            state => Some(format!("its state is {state:?}")),
        }
    }

    /// Returns an error text if a request took too long or succeeded without a required plugin.
    pub(super) fn check_calls(&self) -> Option<String> {
        let (calls, deliveries) = (self.load.calls(), self.plugin.deliveries());
        let Temper { is_serial, is_required, .. } = self.temper;
        let request_timeout = SECOND * 2;
        // A required plugin may delay requests until it has caught up, by `join_timeout` at most.
        let gates_wait = if is_required { SECOND * 10 } else { Duration::ZERO };
        let promise = Promise { request_timeout, is_serial, gates_wait };
        let waits = check_waits(&calls, &[(deliveries.clone(), promise)]);
        waits.or_else(|| is_required.then(|| check_required(&calls, &deliveries, request_timeout)).flatten())
    }
}
