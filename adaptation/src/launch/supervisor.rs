//! Keeps one program running.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::backoff::Backoff;
use super::directory::PluginProgram;
use super::disk::Disk;
use super::instance::{Instance, wished};
use crate::events::Happening;
use crate::launch::replacement::{Lineage, ProgramWish};
use crate::operation::shared::Shared;

/// Keeps one program running, until another program replaces it or the adaptation stops.
pub(super) struct Supervisor {
    pub(super) shared: Arc<Shared>,
    pub(super) found: PluginProgram,
    pub(super) disk: Disk,
    pub(super) lineage: Arc<Lineage>,
    pub(super) wish: watch::Receiver<ProgramWish>,
    /// Dropped when the program has joined, or has failed to join for the first time.
    pub(super) tried: Option<mpsc::Sender<Infallible>>,
}

impl Supervisor {
    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::default();
        if self.shared.services.stopping.is_cancelled() {
            return;
        }
        while let Some(pause) = self.run_once(&mut backoff).await {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = wished(&mut self.wish, ProgramWish::GiveWay) => return,
                () = self.shared.services.stopping.cancelled() => return,
            }
        }
    }

    /// Runs the program once. Returns the pause before the next run, or `None` if there is none.
    async fn run_once(&mut self, backoff: &mut Backoff) -> Option<Duration> {
        let Self { shared, found, disk, lineage, wish, tried } = self;
        let mut instance = Instance { shared, found, disk, wish: wish.clone() };
        let joined = || {
            lineage.joined(wish);
            drop(tried.take());
        };
        let run = instance.run(joined).await;
        drop(tried.take());
        let up = run.as_ref().map_or(Duration::ZERO, |run| run.up);
        let is_over = shared.services.stopping.is_cancelled() || *wish.borrow() > ProgramWish::Stay;
        let again_in = (!is_over).then(|| backoff.after(up));
        let plugin = found.id.clone();
        shared.services.watchers.tell(match run {
            Ok(run) => {
                let status = run.status.map_or_else(|| "unknown".to_owned(), |status| status.to_string());
                Happening::Exited { plugin, status, again_in }
            }
            Err(error) => {
                let cause = error.source().map_or_else(String::new, |cause| format!(": {cause}"));
                Happening::NotLaunched { plugin, reason: format!("{error}{cause}"), again_in }
            }
        });
        again_in
    }
}
