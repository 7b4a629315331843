//! Lists the plugin directory periodically.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nri_proto::PluginId;
use tokio::sync::mpsc;
use tracing::warn;

use super::changes::{ProgramChange, Stamps, changes, stamps};
use super::directory::{DirectoryListing, PluginProgram, look};
use super::disk::Disk;
use super::error::LaunchError;
use super::supervisor::Supervisor;
use crate::launch::replacement::Lineage;
use crate::operation::shared::Shared;

/// The interval between two listings. A listing costs some system calls. Notification by the kernel
/// would cost a file descriptor, and would need a second mechanism for a directory that does not
/// exist yet or is a symbolic link.
const PAUSE: Duration = Duration::from_secs(1);

/// Launches the programs in the plugin directory, and follows its changes.
pub(super) struct Keeper {
    shared: Arc<Shared>,
    dir: PathBuf,
    disk: Disk,
    /// The programs that run or are to run.
    running: Stamps,
    lineages: BTreeMap<PluginId, Arc<Lineage>>,
    /// The programs in the previous listing.
    before: Stamps,
    /// The entries that were reported as not launched, so that each is reported once.
    unfit: BTreeSet<OsString>,
    unreadable: bool,
}

impl Keeper {
    /// Launches the programs that are in the directory now.
    pub(super) async fn start(
        shared: Arc<Shared>,
        dir: PathBuf,
        tried: mpsc::Sender<Infallible>,
    ) -> Result<Self, LaunchError> {
        let mut keeper = Self {
            shared,
            dir,
            disk: Disk::default(),
            running: Stamps::new(),
            lineages: BTreeMap::new(),
            before: Stamps::new(),
            unfit: BTreeSet::new(),
            unreadable: false,
        };
        let look = keeper.look().await?;
        keeper.report(&look);
        keeper.before = stamps(&look);
        for found in look.found {
            keeper.launch(found, Some(tried.clone()));
        }
        Ok(keeper)
    }

    /// Lists the directory until the adaptation stops. The launched plugins notice the stop
    /// themselves.
    pub(super) async fn run(mut self) {
        let stopping = self.shared.services.stopping.clone();
        let looking = async {
            loop {
                tokio::time::sleep(PAUSE).await;
                match self.look().await {
                    Ok(look) => self.update(look),
                    Err(error) if self.unreadable => drop(error),
                    Err(error) => {
                        self.unreadable = true;
                        let error = &error as &dyn std::error::Error;
                        warn!(error, "could not list the plugin directory; launched plugins keep running unchanged");
                    }
                }
            }
        };
        stopping.run_until_cancelled(looking).await;
    }

    async fn look(&self) -> Result<DirectoryListing, LaunchError> {
        let (dir, limit) = (self.dir.clone(), self.shared.services.config.max_plugins);
        let looked = self.disk.ask(move || look(&dir, limit)).await;
        looked.map_err(|source| LaunchError::ReadDirectory { dir: self.dir.clone(), source })?
    }

    fn update(&mut self, look: DirectoryListing) {
        self.unreadable = false;
        self.report(&look);
        for change in changes(&self.running, &self.before, &look) {
            match change {
                ProgramChange::Launch(found) => self.launch(found, None),
                ProgramChange::Remove(id) => self.remove(&id),
            }
        }
        self.before = stamps(&look);
    }

    fn launch(&mut self, found: PluginProgram, tried: Option<mpsc::Sender<Infallible>>) {
        self.running.insert(found.id.clone(), found.stamp);
        let lineage = Arc::clone(self.lineages.entry(found.id.clone()).or_default());
        let wish = lineage.succeed();
        let supervisor =
            Supervisor { shared: Arc::clone(&self.shared), found, disk: Disk::default(), lineage, wish, tried };
        self.shared.services.spawn(supervisor.run());
    }

    fn remove(&mut self, id: &PluginId) {
        self.running.remove(id);
        if let Some(lineage) = self.lineages.remove(id) {
            lineage.leave();
        }
    }

    /// Logs each entry that is not launched, with the reason. An entry is logged again only after
    /// it was absent.
    fn report(&mut self, look: &DirectoryListing) {
        let reported = std::mem::take(&mut self.unfit);
        for (name, unfit) in &look.unfit {
            if !reported.contains(name) {
                let error = unfit as &dyn std::error::Error;
                warn!(path = %self.dir.join(name).display(), error, "entry of the plugin directory is not launched");
            }
            self.unfit.insert(name.clone());
        }
    }
}
