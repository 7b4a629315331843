mod error;
mod history;
mod identity;
mod options;
mod session;
mod signal;

use std::sync::Arc;
use std::time::Duration;

use nri_proto::PluginId;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use self::error::{OptionsError, RunError};
use self::history::ConnectionHistory;
pub use self::identity::IdentityError;
pub use self::options::{Backoff, Options};
use self::session::{SessionEnd, Timeouts};
pub use self::signal::stop_signal;
use crate::connection::{ConnectionSource, launch_descriptor};
use crate::plugin::{Plugin, chain};
use crate::runtime::Runtime;
use crate::service::{Service, ServiceSettings};

/// The longest that a runtime can have us wait until it lets us in.
const LONGEST_REGISTRATION: Duration = Duration::from_hours(1);

/// A plugin that is ready to run.
pub struct Runner {
    id: PluginId,
    plugin: Arc<dyn Plugin>,
    runtime: Runtime,
    connections: ConnectionSource,
    settings: ServiceSettings,
    timeouts: Timeouts,
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
        let id = identity::resolve(name.as_deref(), index.as_deref())?;
        if plugin.events().is_empty() {
            return Err(OptionsError::NoEvents);
        }
        let connections = ConnectionSource::new(connection, launch_descriptor());
        // Go's runtimes before 0.7 do not synchronize what they launch.
        let sync = (!matches!(connections, ConnectionSource::Inherited(_))).then_some(sync_timeout);
        let can_reconnect = connections.can_reconnect();
        Ok(Self {
            id,
            plugin,
            runtime: Runtime::new(update_timeout),
            connections,
            settings: ServiceSettings { config, max_sync, is_strict: false, can_reconnect },
            timeouts: Timeouts { registration: registration_timeout, sync, grace },
            reconnect,
        })
    }

    /// A subscription without a handler fails what it is for.
    #[cfg(feature = "testing")]
    pub(crate) fn strict(mut self) -> Self {
        self.settings.is_strict = true;
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
        let mut history = ConnectionHistory::default();
        loop {
            let outcome = self.connect_once(&mut history, &shutdown).await;
            if shutdown.is_cancelled() {
                return Ok(());
            }
            let wait = match self.reconnect_delay(&outcome, &mut history) {
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

    async fn connect_once(
        &mut self,
        history: &mut ConnectionHistory,
        shutdown: &CancellationToken,
    ) -> Result<SessionEnd, RunError> {
        let opened_connection = shutdown.run_until_cancelled(self.connections.open(self.timeouts.registration));
        let Some(opened) = opened_connection.await else { return Ok(SessionEnd::Stopped) };
        let (plugin, runtime) = (Arc::clone(&self.plugin), self.runtime.clone());
        let service =
            Arc::new(Service::new(plugin, runtime, self.settings.clone(), history.was_subscription_refused()));
        let started = Instant::now();
        let outcome = session::run(opened?, &self.id, &service, &self.runtime, self.timeouts, shutdown).await;
        let has_lasted = self.reconnect.is_none_or(|backoff| started.elapsed() >= backoff.most);
        history.record(&service.phases().borrow(), &outcome, has_lasted);
        // It may be busy with others when it comes back, and it has said how busy.
        let announced = service.registration_timeout().min(LONGEST_REGISTRATION);
        self.timeouts.registration = self.timeouts.registration.max(announced);
        outcome
    }

    /// How long to wait before the next attempt, if there is one.
    fn reconnect_delay(
        &self,
        outcome: &Result<SessionEnd, RunError>,
        history: &mut ConnectionHistory,
    ) -> Option<Duration> {
        if matches!(outcome, Err(RunError::Configure(_))) || !self.connections.can_reconnect() {
            return None;
        }
        history.next_delay(self.reconnect)
    }
}
