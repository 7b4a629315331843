//! One run of a launched plugin, from the start of its process until the process is reaped.

use std::io::ErrorKind;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use nri_proto::mux::Mux;
use nri_proto::quote::error_line;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::directory::PluginProgram;
use super::disk::Disk;
use super::drop_in;
use super::error::StartError;
use super::output;
use super::process;
use super::process::{Process, Started};
use crate::api::plugin::Plugin;
use crate::config::policy::Identity;
use crate::events::Happening;
use crate::launch::replacement::ProgramWish;
use crate::limits;
use crate::operation::shared::Shared;
use crate::registry::drain::leave;
use crate::session::PluginSession;
use crate::transport::connection::{CHANNELS, Launched, PeerKind, take_in};

/// How long the connection stays open after its process has ended, so that everything that the
/// plugin still sent is read.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// How often a start is repeated, with a pause between, while the program's file is open for
/// writing (`ETXTBSY`).
const BUSY_TRIES: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(10);
/// The reason for closing a plugin whose program was removed from the directory.
const REMOVED: &str = "its program was removed";

/// One run of a launched plugin.
pub(super) struct Instance<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) found: &'a PluginProgram,
    pub(super) disk: &'a Disk,
    pub(super) wish: watch::Receiver<ProgramWish>,
}

/// The result of one run of a program.
pub(super) struct FinishedRun {
    /// How long the program was connected as a plugin.
    pub(super) up: Duration,
    /// The exit status of the process, if known.
    pub(super) status: Option<ExitStatus>,
}

impl Instance<'_> {
    /// Starts the plugin, and waits until its run ends. Calls `joined` when requests begin to ask
    /// the plugin.
    pub(super) async fn run(&mut self, joined: impl FnOnce()) -> Result<FinishedRun, StartError> {
        self.check_identity()?;
        let config = self.config().await?;
        let Started { process, socket, stdout, stderr } = self.start().await?;
        let Self { shared, found, .. } = self;
        shared.services.watchers.tell(Happening::Launched { plugin: found.id.clone(), pid: process.id() });
        let ended = CancellationToken::new();
        shared.services.spawn(output::forward(stdout, found.id.clone(), "stdout", ended.clone()));
        shared.services.spawn(output::forward(stderr, found.id.clone(), "stderr", ended.clone()));

        let up = self.connect(&process, socket, config, joined).await;
        let grace = self.shared.services.config.shutdown_grace;
        let status = process.end(grace / 2, grace).await;
        ended.cancel();
        if let Err(error) = &status {
            warn!(plugin = %self.found.id, error = error as &dyn std::error::Error, "could not reap the plugin's process");
        }
        Ok(FinishedRun { up, status: status.ok() })
    }

    /// Checks that the operator permits the plugin, so that a program whose registration would be
    /// refused is not started.
    fn check_identity(&self) -> Result<(), StartError> {
        let (id, roster) = (&self.found.id, self.shared.roster());
        let checked = roster.config().policies.check_identity(id, Identity::LAUNCHED);
        checked.map_err(|source| StartError::NotPermitted { plugin: id.clone(), source })
    }

    /// Starts the process. Retries if the file is busy: a program that was just written may still
    /// be open for writing, in a process that another thread is about to start.
    async fn start(&self) -> Result<Started, StartError> {
        let mut tries = BUSY_TRIES;
        loop {
            let found = self.found.clone();
            // Both this crate and the kernel read the program from the disk. If the start takes too
            // long, its result is dropped, which kills the process.
            let started = self.disk.ask(move || process::start(&found)).await;
            match started.unwrap_or_else(|source| Err(StartError::Spawn { path: self.found.path.clone(), source })) {
                Err(StartError::Spawn { source, .. })
                    if tries > 0 && source.kind() == ErrorKind::ExecutableFileBusy =>
                {
                    tries -= 1;
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                started => return started,
            }
        }
    }

    /// Returns the configuration of the plugin.
    async fn config(&self) -> Result<String, StartError> {
        let Some(dir) = self.shared.services.config.plugin_config_path.clone() else { return Ok(String::new()) };
        let (place, id) = (dir.clone(), self.found.id.clone());
        let read = self.disk.ask(move || drop_in::read(&dir, &id)).await;
        read.map_err(|source| StartError::ReadConfig { path: place, source })?
    }

    /// Admits the plugin, and waits until its run ends. Returns how long it was connected as a
    /// plugin.
    async fn connect(
        &mut self,
        process: &Process,
        socket: UnixStream,
        config: String,
        joined: impl FnOnce(),
    ) -> Duration {
        let (mux, channels) = match Mux::on_unix(socket, CHANNELS, limits::CONNECTION) {
            Ok((mux, channels)) => (Arc::new(mux), channels),
            Err(error) => {
                warn!(plugin = %self.found.id, error = &error as &dyn std::error::Error, "could not set up the connection of a launched plugin");
                return Duration::ZERO;
            }
        };
        let launched = PeerKind::Launched(Launched { id: self.found.id.clone(), config });
        let mut joining = Box::pin(take_in(Arc::clone(self.shared), Arc::clone(&mux), channels, launched));
        let outcome = tokio::select! {
            biased;
            outcome = &mut joining => outcome,
            () = self.over(process) => match timeout(LAST_WORDS, &mut joining).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    mux.close();
                    joining.await
                }
            },
        };
        match outcome {
            Ok(plugin) => {
                let since = Instant::now();
                joined();
                self.stay(process, &plugin, &mux).await;
                since.elapsed()
            }
            // The adaptation stops, which closes the plugin. Other causes do not matter then.
            Err(_) if self.shared.services.stopping.is_cancelled() => Duration::ZERO,
            Err(error) => {
                warn!(plugin = %self.found.id, error = %error_line(&error), "launched plugin did not join");
                Duration::ZERO
            }
        }
    }

    /// Waits until the process has ended, or until the program was removed or replaced.
    async fn over(&mut self, process: &Process) {
        tokio::select! {
            () = process.ended() => {}
            () = wished(&mut self.wish, ProgramWish::Leave) => {}
        }
    }

    /// Waits until the plugin is to end, and closes its connection.
    async fn stay(&mut self, process: &Process, plugin: &Arc<dyn Plugin>, mux: &Mux) {
        tokio::select! {
            biased;
            _ = mux.closed() => {}
            () = self.shared.services.stopping.cancelled() => {
                // The shutdown tells all plugins to end, and closes their connections.
                let _ = timeout(2 * self.shared.services.config.shutdown_grace, mux.closed()).await;
            }
            () = process.ended() => {
                let _ = timeout(LAST_WORDS, mux.closed()).await;
            }
            () = wished(&mut self.wish, ProgramWish::Leave) => match self.entry(plugin) {
                Some(entry) if self.shared.remove(&entry, REMOVED) => leave(self.shared, entry, REMOVED).await,
                // Another plugin has replaced this one. The drain of the replaced plugin closes its
                // connection.
                Some(_) | None => _ = mux.closed().await,
            },
        }
        plugin.close();
    }

    /// Returns the session of the plugin, if the plugin is still in the roster.
    fn entry(&self, plugin: &Arc<dyn Plugin>) -> Option<Arc<PluginSession>> {
        let roster = self.shared.roster();
        roster.entries().iter().find(|entry| Arc::ptr_eq(&entry.plugin, plugin)).map(|found| Arc::clone(found))
    }
}

/// Waits until the wish is at least `least`.
pub(super) async fn wished(wish: &mut watch::Receiver<ProgramWish>, least: ProgramWish) {
    if wish.wait_for(|wish| *wish >= least).await.is_err() {
        // The sender was dropped, so the wish no longer changes.
        std::future::pending().await
    }
}
