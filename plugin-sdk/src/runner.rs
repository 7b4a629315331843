//! Running a plugin: from its options, over any number of connections, to its end.
//!
//! - `runner.rs` connects, runs a session on the connection, and reconnects.
//! - `options.rs` has the options; `identity.rs` determines the index and the name of the plugin.
//! - `session.rs` is one connection: it registers the plugin and serves the runtime until the end.
//! - `history.rs` decides from past connections when to reconnect.
//! - `signal.rs` waits for a signal to stop; `error.rs` has the errors of running a plugin.

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

/// The upper limit on the registration timeout that a runtime can ask for.
const LONGEST_REGISTRATION: Duration = Duration::from_hours(1);

/// A plugin with its options, ready to run.
pub struct Runner {
    id: PluginId,
    plugin: Arc<dyn Plugin>,
    runtime: Runtime,
    connections: ConnectionSource,
    settings: ServiceSettings,
    timeouts: Timeouts,
    reconnect: Option<Backoff>,
}

/// Runs a plugin until SIGTERM or SIGINT, or until it cannot reconnect to its runtime.
///
/// # Errors
///
/// Returns an error if the options are invalid, if the first connection fails, if the plugin
/// refuses its configuration, or if the connection is lost and the plugin does not reconnect.
pub async fn run(plugin: impl Plugin, options: Options) -> Result<(), RunError> {
    let shutdown = CancellationToken::new();
    let runner = Runner::new(Arc::new(plugin), options)?;
    let stopped = async {
        if let Err(error) = stop_signal().await {
            warn!(%error, "could not install signal handlers; SIGTERM and SIGINT do not stop the plugin gracefully");
            std::future::pending::<()>().await;
        }
    };
    tokio::pin!(stopped);
    let running = runner.run(shutdown.clone());
    tokio::pin!(running);
    tokio::select! {
        outcome = &mut running => return outcome,
        () = &mut stopped => info!("received a signal to stop"),
    }
    shutdown.cancel();
    running.await
}

impl Runner {
    /// Checks the options of a plugin, and creates a runner for it. Does not connect yet, but takes
    /// over the [connection](crate::Connection) that a launched plugin inherits, or closes it.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin has no valid index and name, or subscribes to no events.
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
        // First, so that the inherited connection is closed if an option is invalid.
        let connections = ConnectionSource::new(connection, launch_descriptor());
        let id = identity::resolve(name.as_deref(), index.as_deref())?;
        if plugin.events().is_empty() {
            return Err(OptionsError::NoEvents);
        }
        // Runtimes on Go's NRI before 0.7 do not synchronize the plugins that they launch.
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

    /// Makes an event without a handler an error instead of a warning.
    #[cfg(feature = "testing")]
    pub(crate) fn strict(mut self) -> Self {
        self.settings.is_strict = true;
        self
    }

    /// Returns the index and the name of the plugin.
    pub fn id(&self) -> &PluginId {
        &self.id
    }

    /// Returns a handle for calling the runtime at any time. It stays valid over reconnections.
    pub fn runtime(&self) -> Runtime {
        self.runtime.clone()
    }

    /// Runs the plugin until `shutdown` is cancelled, or until it cannot reconnect to its runtime.
    ///
    /// The first connection must succeed. If the connection is lost later, the plugin reconnects as
    /// set in [`Options::reconnect`]: it registers, and is configured and synchronized again.
    ///
    /// # Errors
    ///
    /// Returns an error if the first connection fails, if the plugin refuses its configuration, or
    /// if the connection is lost and the plugin does not reconnect.
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
                Ok(_) => info!(?wait, "the runtime shut down, reconnecting"),
                Err(error) => warn!(error = chain(error), ?wait, "reconnecting after an error"),
            }
            if shutdown.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                return Ok(());
            }
        }
    }

    /// Runs one connection to its end, and records how it went.
    async fn connect_once(
        &mut self,
        history: &mut ConnectionHistory,
        shutdown: &CancellationToken,
    ) -> Result<SessionEnd, RunError> {
        let opening = shutdown.run_until_cancelled(self.connections.open(self.timeouts.registration));
        let Some(opened) = opening.await else { return Ok(SessionEnd::Stopped) };
        let (plugin, runtime) = (Arc::clone(&self.plugin), self.runtime.clone());
        let service =
            Arc::new(Service::new(plugin, runtime, self.settings.clone(), history.was_subscription_refused()));
        let started = Instant::now();
        let outcome = session::run(opened?, &self.id, &service, &self.runtime, self.timeouts, shutdown).await;
        let has_lasted = self.reconnect.is_none_or(|backoff| started.elapsed() >= backoff.most);
        history.record(&service.phases().borrow(), &outcome, has_lasted);
        // A restarted runtime may be busy with other plugins, so wait as long as it allows them.
        let announced = service.registration_timeout().min(LONGEST_REGISTRATION);
        self.timeouts.registration = self.timeouts.registration.max(announced);
        outcome
    }

    /// Returns how long to wait before the next attempt, or none if there is no further attempt.
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
