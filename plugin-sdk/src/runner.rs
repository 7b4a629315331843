mod error;
mod identity;
mod options;
mod session;
mod signal;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use nri_proto::PluginId;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use self::error::{OptionsError, RunError};
pub use self::identity::IdentityError;
pub use self::options::{Backoff, Options};
use self::session::{End, Times};
pub use self::signal::stop_signal;
use crate::connection::{Road, launched};
use crate::plugin::{Plugin, chain};
use crate::runtime::Runtime;
use crate::service::{Service, Step, Terms};

/// The longest that a runtime can have us wait until it lets us in.
const LONGEST_REGISTRATION: Duration = Duration::from_hours(1);

/// A plugin that is ready to run.
pub struct Runner {
    id: PluginId,
    plugin: Arc<dyn Plugin>,
    runtime: Runtime,
    road: Road,
    terms: Terms,
    times: Times,
    reconnect: Option<Backoff>,
}

/// Runs a plugin until SIGTERM or SIGINT, or until its runtime leaves for good.
///
/// # Errors
///
/// It cannot be started, or the connection is lost and cannot be had again.
pub async fn run(plugin: impl Plugin, options: Options) -> Result<(), RunError> {
    let shutdown = CancellationToken::new();
    let runner = Runner::new(Arc::new(plugin), options)?;
    let stopped = async {
        if let Err(error) = stop_signal().await {
            warn!(%error, "signals cannot be watched");
            std::future::pending::<()>().await;
        }
    };
    tokio::pin!(stopped);
    let running = runner.run(shutdown.clone());
    tokio::pin!(running);
    tokio::select! {
        outcome = &mut running => return outcome,
        () = &mut stopped => info!("told to stop"),
    }
    shutdown.cancel();
    running.await
}

impl Runner {
    /// Looks whether the plugin can run.
    ///
    /// # Errors
    ///
    /// It has no name, or subscribes to nothing.
    pub fn new(plugin: Arc<dyn Plugin>, options: Options) -> Result<Self, OptionsError> {
        let Options {
            name,
            index,
            connection,
            config,
            registration_timeout,
            sync_timeout,
            update_timeout,
            grace,
            max_sync,
            reconnect,
        } = options;
        let id = identity::find(name.as_deref(), index.as_deref())?;
        if plugin.events().is_empty() {
            return Err(OptionsError::NoEvents);
        }
        let road = Road::of(connection, launched());
        // Go's runtimes before 0.7 do not synchronize what they launch.
        let sync = (!matches!(road, Road::Inherited(_))).then_some(sync_timeout);
        let may_come_back = road.leads_back();
        Ok(Self {
            id,
            plugin,
            runtime: Runtime::new(update_timeout),
            road,
            terms: Terms { config, max_sync, is_strict: false, may_come_back },
            times: Times { registration: registration_timeout, sync, grace },
            reconnect,
        })
    }

    /// A subscription without a handler fails what it is for.
    #[cfg(feature = "testing")]
    pub(crate) fn strict(mut self) -> Self {
        self.terms.is_strict = true;
        self
    }

    /// What the plugin is called.
    pub fn id(&self) -> &PluginId {
        &self.id
    }

    /// The runtime, to ask it for something from anywhere, also over a reconnection.
    pub fn runtime(&self) -> Runtime {
        self.runtime.clone()
    }

    /// Runs the plugin until `shutdown`, or until its runtime leaves for good.
    ///
    /// The first connection must succeed. If it is lost later on, and if the options say so, it is made again: the plugin
    /// then registers, is configured and is synchronized as before.
    ///
    /// # Errors
    ///
    /// The runtime cannot be reached, does not let the plugin in, or is lost.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<(), RunError> {
        let mut progress = Progress::default();
        loop {
            let outcome = self.connect_once(&mut progress, &shutdown).await;
            if shutdown.is_cancelled() {
                return Ok(());
            }
            let wait = match self.again(&outcome, &mut progress) {
                Some(wait) => wait,
                None => return outcome.map(drop),
            };
            match &outcome {
                Ok(_) => info!(?wait, "the runtime went away, will connect again"),
                Err(error) => warn!(error = chain(error), ?wait, "will connect again"),
            }
            if shutdown.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                return Ok(());
            }
        }
    }

    async fn connect_once(&mut self, progress: &mut Progress, shutdown: &CancellationToken) -> Result<End, RunError> {
        let opening = shutdown.run_until_cancelled(self.road.open(self.times.registration));
        let Some(opened) = opening.await else { return Ok(End::Stopped) };
        let (plugin, runtime) = (Arc::clone(&self.plugin), self.runtime.clone());
        let service = Arc::new(Service::new(plugin, runtime, self.terms.clone(), progress.was_refused));
        let begun = Instant::now();
        let outcome = session::run(opened?, &self.id, &service, &self.runtime, self.times, shutdown).await;
        let has_lasted = self.reconnect.is_none_or(|backoff| begun.elapsed() >= backoff.most);
        progress.note(&service.steps().borrow(), &outcome, has_lasted);
        // It may be busy with others when it comes back, and it has said how busy.
        let told = service.registration_timeout().min(LONGEST_REGISTRATION);
        self.times.registration = self.times.registration.max(told);
        outcome
    }

    /// How long to wait before the next attempt, if there is one.
    fn again(&self, outcome: &Result<End, RunError>, progress: &mut Progress) -> Option<Duration> {
        if matches!(outcome, Err(RunError::Configure(_))) || !self.road.leads_back() {
            return None;
        }
        if progress.is_to_ask_for_less() {
            return Some(Duration::ZERO);
        }
        let backoff = self.reconnect.filter(|_| progress.was_in)?;
        let wait = backoff.after(progress.failures, RandomState::new().build_hasher().finish());
        progress.failures = progress.failures.saturating_add(1);
        Some(wait)
    }
}

/// What was learnt from the connections so far.
#[derive(Debug, Default)]
struct Progress {
    /// A runtime has let the plugin in before.
    was_in: bool,
    /// Attempts that failed since. Connections that did not last count, too.
    failures: u32,
    /// Connections in a row that did not last.
    n_short: u32,
    /// The last runtime left when it was told what the plugin wants to hear of: it may not know all of that.
    was_refused: bool,
    /// And nobody has tried with less since.
    is_to_try: bool,
}

impl Progress {
    fn note(&mut self, step: &Step, outcome: &Result<End, RunError>, has_lasted: bool) {
        match (step, outcome) {
            (Step::Synchronized | Step::ShutDown, _) => {
                // One that lets the plugin in and at once out again is not to be synchronized with ten times a second.
                let n_short = if has_lasted { 0 } else { self.n_short.saturating_add(1) };
                *self = Self { was_in: true, failures: n_short.saturating_sub(1), n_short, ..Self::default() };
            }
            (Step::Configured { may_be_refused: true }, Err(RunError::LeftEarly { .. } | RunError::Register(_)))
                if !self.was_refused =>
            {
                self.was_refused = true;
                self.is_to_try = true;
            }
            _ => {}
        }
    }

    fn is_to_ask_for_less(&mut self) -> bool {
        std::mem::take(&mut self.is_to_try)
    }
}
