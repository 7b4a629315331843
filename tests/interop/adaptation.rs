//! An adaptation on a socket of its own, for minimal Go plugins.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nri_adaptation::{Adaptation, Config, Happening, Source};
use nri_proto::{Container, Pod};
use tokio::process::{Child, Command};
use tokio::sync::broadcast::Receiver;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);

pub(crate) fn pod(id: &str) -> Pod {
    Pod { id: id.to_owned(), name: id.to_owned(), ..Pod::default() }
}

pub(crate) fn container(id: &str) -> Container {
    Container { id: id.to_owned(), pod_id: "p".to_owned(), ..Container::default() }
}

pub(crate) struct Runtime {
    pub(crate) nri: Adaptation,
    happenings: Receiver<Happening>,
    directory: tempfile::TempDir,
}

impl Runtime {
    /// Starts an adaptation with this configuration, in TOML.
    pub(crate) fn with(config: &str, source: Arc<dyn Source>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = Some(directory.path().join("nri.sock"));
        let nri = Adaptation::new(Config { socket, ..Config::from_toml(config).unwrap() }, source);
        let happenings = nri.watch();
        nri.listen().unwrap();
        Self { nri, happenings, directory }
    }

    pub(crate) fn plugin(&self, program: &std::path::Path, index: &str) -> Child {
        let mut command = Command::new(program);
        command.arg("-socket").arg(self.directory.path().join("nri.sock")).args(["-index", index]);
        command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap()
    }

    pub(crate) async fn next(&mut self) -> Happening {
        timeout(LIMIT, self.happenings.recv()).await.expect("nothing happens").unwrap()
    }
}
