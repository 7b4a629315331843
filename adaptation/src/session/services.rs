//! The services that the sessions of all plugins share: the runtime's source, the event stream, the
//! records and the tasks.

use std::sync::Arc;

use nri_proto::PluginId;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::error::RelayError;
use crate::api::source::Source;
use crate::config::Config;
use crate::config::policy::{Declared, Identity, NotPermitted, Policy};
use crate::config::snapshot::ConfigSnapshot;
use crate::events::Watchers;
use crate::reply::recorder::Records;
use crate::reply::update_log::UpdateLog;
use crate::session::log_throttle::PluginLogThrottle;

/// The services of one adaptation that the sessions of its plugins use.
pub(crate) struct Services {
    pub(crate) config: Config,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) watchers: Watchers,
    pub(crate) records: Arc<Records>,
    pub(crate) update_log: UpdateLog,
    /// Limits the warnings about what plugins ask for outside a request.
    pub(crate) throttle: PluginLogThrottle,
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
    snapshot: Mutex<Arc<ConfigSnapshot>>,
    handle: Handle,
}

impl Services {
    pub(crate) fn new(
        config: Config,
        source: Arc<dyn Source>,
        watchers: Watchers,
        snapshot: Arc<ConfigSnapshot>,
    ) -> Self {
        Self {
            records: Arc::new(Records::new(config.history_bytes)),
            config,
            source,
            stopping: watchers.stopping(),
            watchers,
            update_log: UpdateLog::default(),
            throttle: PluginLogThrottle::default(),
            tasks: TaskTracker::new(),
            snapshot: Mutex::new(snapshot),
            handle: Handle::current(),
        }
    }

    /// Returns the configuration that is in effect.
    pub(crate) fn snapshot(&self) -> Arc<ConfigSnapshot> {
        Arc::clone(&self.snapshot.lock())
    }

    /// Puts another configuration into effect.
    pub(crate) fn set_snapshot(&self, snapshot: Arc<ConfigSnapshot>) {
        *self.snapshot.lock() = snapshot;
    }

    /// Checks that the configuration in effect permits this plugin for a peer with this identity.
    /// Returns the current policy of the plugin, also for a plugin that has left.
    pub(crate) fn policy_now(&self, id: &PluginId, identity: Identity) -> Result<Policy, NotPermitted> {
        let policies = &self.snapshot().policies;
        policies.check_identity(id, identity)?;
        Ok(policies.effective(id, Declared::default()).policy)
    }

    /// Checks that the adaptation was not stopped.
    pub(crate) fn check_running(&self) -> Result<(), RelayError> {
        if self.stopping.is_cancelled() { Err(RelayError::Stopped) } else { Ok(()) }
    }

    /// Spawns a task that [`crate::Adaptation::stop`] waits for. The caller need not be in a Tokio
    /// runtime.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(task, &self.handle);
    }
}
