//! The state that all clones of an [`Nri`](crate::Nri) and of its handles share: the adaptation and
//! the namespaces.
//!
//! - `startup`: whether NRI is started, and the exits that are reported before that.
//! - `namespaces`: the registered namespaces: snapshots, and which namespace has a container.
//! - `plugin_requests`: updates that plugins want, and who may want them.
//! - `evictions`: containers that plugins want stopped.
//! - `log_limit`: a limit of the warnings about one request.

mod evictions;
mod log_limit;
pub(crate) mod namespaces;
pub(crate) mod plugin_requests;
pub(crate) mod startup;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nri_adaptation::{Adaptation, Config, Metrics};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use self::namespaces::Namespaces;
use self::startup::Startup;

/// How long the adaptation takes to close plugins after they were asked to shut down.
const CLOSE_MARGIN: Duration = Duration::from_secs(1);

/// One enabled NRI: shared by all clones of [`Nri`](crate::Nri) and by all handles.
pub(crate) struct Instance {
    pub(crate) adaptation: Adaptation,
    pub(crate) namespaces: Arc<Namespaces>,
    pub(crate) startup: Startup,
    pub(crate) tasks: TaskTracker,
    /// Cancelled when [`Nri::stop`](crate::Nri::stop) stops waiting for tasks.
    pub(crate) is_over: CancellationToken,
    /// How many notifications and lists of evictions were unfinished when NRI stopped waiting for
    /// them.
    pub(crate) n_unfinished: AtomicU64,
    /// How long the adaptation may take to shut plugins down.
    pub(crate) shutdown_limit: Duration,
    pub(crate) runtime: Handle,
}

impl Instance {
    /// Creates an instance whose tasks run on the current Tokio runtime.
    ///
    /// # Panics
    ///
    /// Panics outside a Tokio runtime.
    pub(crate) fn new(config: Config, metrics: Arc<dyn Metrics>) -> Arc<Self> {
        Arc::new_cyclic(|instance| {
            let namespaces = Arc::new(Namespaces::new(config.source_timeout, instance.clone()));
            let source = Arc::clone(&namespaces);
            let shutdown_limit = config.shutdown_grace + CLOSE_MARGIN;
            Self {
                adaptation: Adaptation::with_metrics(config, source, metrics),
                namespaces,
                startup: Startup::default(),
                tasks: TaskTracker::new(),
                is_over: CancellationToken::new(),
                n_unfinished: AtomicU64::new(0),
                shutdown_limit,
                runtime: Handle::current(),
            }
        })
    }

    /// Notifies plugins of an end in a task, which [`Nri::stop`](crate::Nri::stop) waits for.
    /// Returns false, and does nothing, if NRI has stopped.
    pub(crate) fn spawn_notification(&self, notification: impl Future<Output = ()> + Send + 'static) -> bool {
        let is_over = self.is_over.clone();
        let is_open = !is_over.is_cancelled();
        if is_open {
            let task = async move { _ = is_over.run_until_cancelled(notification).await };
            self.tasks.spawn_on(task, &self.runtime);
        }
        is_open
    }

    /// Waits until all tasks have finished, or until `deadline`. Cancels the unfinished tasks.
    pub(crate) async fn finish_tasks(&self, deadline: Instant) {
        self.tasks.close();
        if timeout_at(deadline, self.tasks.wait()).await.is_err() {
            let unfinished = self.tasks.len();
            warn!(unfinished, "notifications and evictions did not finish in time; cancelling the rest");
            self.n_unfinished.fetch_max(unfinished as u64, Ordering::Relaxed);
        }
        self.is_over.cancel();
    }
}
