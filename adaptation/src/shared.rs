//! What everything in one adaptation shares.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nri_proto::PluginId;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::info;

use crate::cause::RelayError;
use crate::config::Config;
use crate::entry::Entry;
use crate::events::{Happening, Watchers};
use crate::roster::Roster;
use crate::source::Source;
use crate::turns::Turns;

pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) watchers: Watchers,
    pub(crate) turns: Turns,
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
    /// How many plugins are being synchronized.
    pub(crate) joining: watch::Sender<usize>,
    roster: Mutex<Arc<Roster>>,
}

impl Shared {
    pub(crate) fn new(config: Config, source: Arc<dyn Source>, watchers: Watchers) -> Arc<Self> {
        Arc::new(Self {
            config,
            source,
            watchers,
            turns: Turns::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            joining: watch::Sender::new(0),
            roster: Mutex::default(),
        })
    }

    pub(crate) fn check_running(&self) -> Result<(), RelayError> {
        if self.stopping.is_cancelled() { Err(RelayError::Stopped) } else { Ok(()) }
    }

    /// The plugins that there are now.
    pub(crate) fn roster(&self) -> Arc<Roster> {
        Arc::clone(&self.lock())
    }

    /// Adds a plugin that is ready to be asked, and looks after it until it is gone.
    ///
    /// One of the same id gives way to it.
    pub(crate) fn add(self: &Arc<Self>, entry: Arc<Entry>) {
        let replaced = {
            let mut roster = self.lock();
            let (with, replaced) = roster.with(&entry);
            *roster = Arc::new(with);
            replaced
        };
        self.order_changed();
        if let Some(replaced) = replaced {
            replaced.close("another plugin of the same name took its place");
        }
        self.tasks.spawn(Arc::clone(self).look_after(entry));
    }

    /// Waits until a plugin is gone, by itself or because it was closed, and removes it.
    async fn look_after(self: Arc<Self>, entry: Arc<Entry>) {
        tokio::select! {
            reason = entry.plugin.gone() => entry.close(&reason.to_string()),
            () = entry.closed.cancelled() => {}
        }
        let is_removed = {
            let mut roster = self.lock();
            match roster.without(&entry) {
                Some(without) => {
                    *roster = Arc::new(without);
                    true
                }
                None => false,
            }
        };
        self.watchers.tell(Happening::Closed { plugin: entry.id.clone(), reason: entry.reason().to_owned() });
        if is_removed {
            self.order_changed();
        }
    }

    fn order_changed(&self) {
        let roster = self.roster();
        let order: Vec<&PluginId> = roster.entries().iter().map(|entry| &entry.id).collect();
        self.watchers.metrics().plugins(order.len());
        info!(?order, "plugins are asked in this order");
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Roster>> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
