//! A runtime with a directory of plugins.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::{Adaptation, Config, Happening, Metrics, Source, UpdatesFailed};
use nri_proto::{Eviction, PluginId, Update};
use tokio::sync::broadcast::Receiver;
use tokio::time::timeout;

/// Longer than any step of these tests takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A runtime without pods, and a temporary directory that contains the directory `plugins`.
pub(crate) struct Node {
    pub(crate) nri: Adaptation,
    pub(crate) counts: Arc<Counts>,
    happenings: Receiver<Happening>,
    directory: tempfile::TempDir,
}

/// The number of processes that were started, that have ended, and that are to be started again.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) n_launched: AtomicUsize,
    pub(crate) n_exited: AtomicUsize,
    pub(crate) n_again: AtomicUsize,
}

impl Metrics for Counts {
    fn launched(&self, _: &PluginId) {
        self.n_launched.fetch_add(1, Ordering::Relaxed);
    }

    fn exited(&self, _: &PluginId, status: Option<&str>, again_in: Option<Duration>) {
        self.n_exited.fetch_add(usize::from(status.is_some()), Ordering::Relaxed);
        self.n_again.fetch_add(usize::from(again_in.is_some()), Ordering::Relaxed);
    }
}

struct Nothing;

#[async_trait]
impl Source for Nothing {
    async fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }

    async fn apply(&self, _: &PluginId, updates: Vec<Update>, _: Vec<Eviction>) -> Result<Vec<Update>, UpdatesFailed> {
        Ok(updates)
    }
}

impl Node {
    pub(crate) fn new() -> Self {
        Self::with("", Duration::from_millis(500))
    }

    /// Creates a node with an operator's policy.
    pub(crate) fn with_policy(policy: &str) -> Self {
        Self::with(policy, Duration::from_millis(500))
    }

    /// Creates a node with a limit for the shutdown of plugins.
    pub(crate) fn with_grace(shutdown_grace: Duration) -> Self {
        Self::with("", shutdown_grace)
    }

    fn with(policy: &str, shutdown_grace: Duration) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["plugins", "conf.d"] {
            let path = directory.path().join(name);
            fs::create_dir(&path).unwrap();
            // Set explicitly, because the umask varies: a program is launched only if no other user
            // can change it.
            fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        let config = Config {
            socket: Some(directory.path().join("nri.sock")),
            plugin_path: Some(directory.path().join("plugins")),
            plugin_config_path: Some(directory.path().join("conf.d")),
            shutdown_grace,
            ..Config::from_toml(policy).unwrap()
        };
        let counts = Arc::new(Counts::default());
        let nri = Adaptation::with_metrics(config, Arc::new(Nothing), Arc::clone(&counts) as Arc<dyn Metrics>);
        Self { happenings: nri.watch_plugins(), nri, counts, directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Puts a program in place atomically.
    pub(crate) fn put(&self, name: &str, text: impl AsRef<[u8]>) {
        let new = self.path("new");
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, Permissions::from_mode(0o755)).unwrap();
        fs::rename(new, self.path("plugins").join(name)).unwrap();
    }

    /// Puts a drop-in configuration in place.
    pub(crate) fn configure(&self, name: &str, text: &str) {
        let path = self.path("conf.d").join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    }

    /// Returns a script that runs `commands` with the directory of the test as `$dir`.
    pub(crate) fn script(&self, commands: &str) -> String {
        format!("#!/bin/sh\ndir={}\n{commands}\n", self.directory.path().display())
    }

    pub(crate) async fn launch(&self) {
        timeout(PATIENCE, self.nri.launch()).await.expect("launching hangs").unwrap();
    }

    pub(crate) async fn stop(&self) {
        timeout(PATIENCE, self.nri.stop()).await.expect("stopping hangs");
    }

    pub(crate) fn plugins(&self) -> Vec<String> {
        self.nri.plugins().into_iter().map(|plugin| plugin.id.to_string()).collect()
    }

    pub(crate) async fn next(&mut self) -> Happening {
        timeout(PATIENCE, self.happenings.recv()).await.expect("nothing happens").unwrap()
    }

    /// Returns the events since the last call, in a short form.
    pub(crate) fn happened(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.happenings.try_recv().ok()).map(|happening| short(&happening)).collect()
    }

    /// Waits for an event. Returns the events up to this one, in a short form.
    pub(crate) async fn until(&mut self, wanted: &str) -> Vec<String> {
        let mut happened = Vec::new();
        loop {
            happened.push(short(&self.next().await));
            if happened.last().is_some_and(|last| last.starts_with(wanted)) {
                return happened;
            }
        }
    }

    /// Waits until a process was started. Returns its process id.
    pub(crate) async fn launched(&mut self) -> u32 {
        loop {
            if let Happening::Launched { pid, .. } = self.next().await {
                return pid;
            }
        }
    }
}

/// Formats an event without the parts that vary between runs.
pub(crate) fn short(happening: &Happening) -> String {
    let again = |again_in: &Option<Duration>| again_in.map(|pause| format!(", again in {pause:?}")).unwrap_or_default();
    match happening {
        Happening::Launched { plugin, .. } => format!("{plugin} launched"),
        Happening::NotLaunched { plugin, reason, again_in } => {
            format!("{plugin} not launched: {reason}{}", again(again_in))
        }
        Happening::Exited { plugin, status, again_in } => format!("{plugin} exited: {status}{}", again(again_in)),
        Happening::Joined { plugin, .. } => format!("{plugin} joined"),
        Happening::Policy { plugin, policy, .. } => format!("{plugin} has another policy: {policy}"),
        Happening::Closed { plugin, reason } => format!("{plugin} closed: {reason}"),
        Happening::Refused { plugin, reason } => format!("{plugin} refused: {reason}"),
        Happening::Overdue { pod, .. } => format!("an operation of {pod} is overdue"),
        Happening::State { plugin, state } => format!("{plugin} {state}"),
        Happening::Late { plugin, .. } => format!("{plugin} late"),
        Happening::Asked { plugin, event, .. } => format!("{plugin} asked {}", event.rpc()),
    }
}

/// Returns whether a process exists, even as a zombie.
pub(crate) fn is_there(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// Waits until a condition holds.
pub(crate) async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, waiting).await.expect("it never comes to that");
}
