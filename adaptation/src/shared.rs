//! What everything in one adaptation shares.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nri_proto::PluginId;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::info;

use crate::cause::RelayError;
use crate::config::Config;
use crate::entry::Entry;
use crate::events::{Happening, Watchers};
use crate::leaving::leave;
use crate::records::Records;
use crate::requirements::Requirements;
use crate::roster::Roster;
use crate::source::Source;
use crate::turns::Turns;

pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) watchers: Watchers,
    pub(crate) records: Records,
    pub(crate) requirements: Requirements,
    pub(crate) turns: Turns,
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
    /// How many plugins are being synchronized.
    pub(crate) joining: watch::Sender<usize>,
    plugins: Mutex<Plugins>,
    handle: Handle,
}

/// The plugins, and whether there may be more. One lock: a plugin is in the roster that is closed at the end, or not at all.
#[derive(Default)]
struct Plugins {
    roster: Arc<Roster>,
    stopped: bool,
}

impl Shared {
    pub(crate) fn new(config: Config, source: Arc<dyn Source>, watchers: Watchers) -> Arc<Self> {
        Arc::new(Self {
            records: Records::new(config.history_bytes),
            requirements: Requirements::of(&config),
            config,
            source,
            watchers,
            turns: Turns::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            joining: watch::Sender::new(0),
            plugins: Mutex::default(),
            handle: Handle::current(),
        })
    }

    pub(crate) fn check_running(&self) -> Result<(), RelayError> {
        if self.stopping.is_cancelled() { Err(RelayError::Stopped) } else { Ok(()) }
    }

    /// The plugins that there are now.
    pub(crate) fn roster(&self) -> Arc<Roster> {
        Arc::clone(&self.lock().roster)
    }

    /// Adds a plugin that is ready to be asked, and looks after it until it is gone.
    ///
    /// One of the same id gives way to it.
    ///
    /// False if the adaptation was stopped: it is not added.
    pub(crate) fn add(self: &Arc<Self>, entry: Arc<Entry>) -> bool {
        let replaced = {
            let mut plugins = self.lock();
            if plugins.stopped {
                return false;
            }
            let (with, replaced) = plugins.roster.with(&entry);
            plugins.roster = Arc::new(with);
            replaced
        };
        self.order_changed();
        if let Some(replaced) = replaced {
            // Now, and not when it has left: the other one is there already.
            let (plugin, reason) = (replaced.id.clone(), "another plugin of the same name took its place");
            self.watchers.tell(Happening::Closed { plugin, reason: reason.to_owned() });
            self.spawn(leave(replaced, reason));
        }
        self.spawn(Arc::clone(self).look_after(entry));
        true
    }

    /// Stops: no request is relayed and no plugin added any more. Returns those that there are.
    pub(crate) fn stop(&self) -> Arc<Roster> {
        self.stopping.cancel();
        let mut plugins = self.lock();
        plugins.stopped = true;
        Arc::clone(&plugins.roster)
    }

    /// Runs a task that [`crate::Adaptation::stop`] waits for, from wherever it is called.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(task, &self.handle);
    }

    /// Waits until a plugin is gone, by itself or because it was closed, and removes it.
    async fn look_after(self: Arc<Self>, entry: Arc<Entry>) {
        tokio::select! {
            reason = entry.plugin.gone() => entry.close(&reason.to_string()),
            () = entry.closed.cancelled() => {}
        }
        let is_removed = {
            let mut plugins = self.lock();
            match plugins.roster.without(&entry) {
                Some(without) => {
                    plugins.roster = Arc::new(without);
                    true
                }
                None => false,
            }
        };
        if is_removed {
            self.tell_closed(&entry);
            self.order_changed();
        }
    }

    fn tell_closed(&self, entry: &Entry) {
        self.watchers.tell(Happening::Closed { plugin: entry.id.clone(), reason: entry.reason().to_owned() });
    }

    fn order_changed(&self) {
        let roster = self.roster();
        let order: Vec<&PluginId> = roster.entries().iter().map(|entry| &entry.id).collect();
        self.watchers.metrics().plugins(order.len());
        info!(?order, "plugins are asked in this order");
    }

    fn lock(&self) -> MutexGuard<'_, Plugins> {
        self.plugins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
