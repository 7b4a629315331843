//! The runtime. Its pods and containers exist only in a table.

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::{Adaptation, Config, Happening, Source, UpdatesFailed};
use nri_proto::{Container, Eviction, PluginId, Pod, Update};
use tempfile::TempDir;
use tokio::sync::broadcast::Receiver;

use crate::show::Show;

/// The indexes and names of the launched plugins, which are also the names of their programs.
const PLUGINS: [(&str, &str); 2] = [("10", "ulimit-adjuster"), ("20", "device-injector")];

pub(crate) struct Node {
    pub(crate) nri: Adaptation,
    pub(crate) store: Arc<Store>,
    happenings: Receiver<Happening>,
    directory: TempDir,
}

/// The pods and containers, for plugins that join.
#[derive(Default)]
pub(crate) struct Store(Mutex<Snapshot>);

impl Store {
    pub(crate) fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn add(&self, pod: &Pod) {
        self.change(|snapshot| snapshot.pods.push(pod.clone()));
    }

    pub(crate) fn put(&self, container: &Container) {
        self.change(|snapshot| {
            snapshot.containers.retain(|other| other.id != container.id);
            snapshot.containers.push(container.clone());
        });
    }

    pub(crate) fn clear(&self) {
        self.change(|snapshot| *snapshot = Snapshot::default());
    }
}

#[async_trait]
impl Source for Store {
    async fn snapshot(&self) -> Snapshot {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn apply(&self, _: &PluginId, updates: Vec<Update>, _: Vec<Eviction>) -> Result<Vec<Update>, UpdatesFailed> {
        // There are no real containers to update, so all updates fail.
        Ok(updates)
    }
}

impl Node {
    /// Creates a runtime in a temporary directory, with its plugins in place.
    pub(crate) fn start() -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("nri-demo-").tempdir()?;
        let path = |name: &str| directory.path().join(name);
        DirBuilder::new().mode(0o755).create(path("plugins"))?;
        let programs = std::env::current_exe()?.parent().context("a program lies in a directory")?.to_owned();
        for (index, name) in PLUGINS {
            let program = programs.join(name);
            ensure!(program.exists(), "no {}: build it with cargo build -p nri-plugin --examples", program.display());
            // A program is launched only if no other user can change it. Other users may be able to
            // change files in the build directory.
            let copy = path("plugins").join(format!("{index}-{name}"));
            fs::copy(program, &copy)?;
            fs::set_permissions(copy, Permissions::from_mode(0o755))?;
        }
        let config = Config {
            runtime_name: "demo".to_owned(),
            runtime_version: env!("CARGO_PKG_VERSION").to_owned(),
            socket: Some(path("nri.sock")),
            plugin_path: Some(path("plugins")),
            plugin_config_path: Some(path("conf.d")),
            ..Config::default()
        };
        let store = Arc::new(Store::default());
        let nri = Adaptation::new(config, Arc::clone(&store) as Arc<dyn Source>);
        Ok(Self { happenings: nri.watch(), nri, store, directory })
    }

    /// Launches the plugins, then accepts connections.
    pub(crate) async fn open(&mut self, show: &Show) -> Result<()> {
        let Self { nri, happenings, .. } = self;
        let mut launching = Box::pin(nri.launch());
        loop {
            tokio::select! {
                biased;
                Ok(happening) = happenings.recv() => show.happening(&happening),
                launched = &mut launching => break launched?,
            }
        }
        Ok(nri.listen()?)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("nri.sock")
    }

    pub(crate) fn plugins(&self) -> PathBuf {
        self.directory.path().join("plugins")
    }

    /// Waits for the next event.
    pub(crate) async fn next(&mut self) -> Option<Happening> {
        self.happenings.recv().await.ok()
    }

    /// Returns the events since the last call.
    pub(crate) fn happened(&mut self) -> Vec<Happening> {
        std::iter::from_fn(|| self.happenings.try_recv().ok()).collect()
    }
}
