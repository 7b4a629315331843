//! Implements `Runtime` with runc: one runc process for each operation.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use async_trait::async_trait;
use cri_domain::Runtime;
use cri_domain::runtime::{ContainerLimits, RUNC_UPDATES, RuntimeError};
use nri_proto::Field;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{ChildStderr, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::timeout;

/// The time for a killed container to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// The time until the exit of a container must have been noticed.
const EXIT_NOTICE_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct Runc {
    /// The directory of the bundles and of runc's state.
    directory: PathBuf,
    /// Whether each container has ended, by id.
    ended: Mutex<HashMap<String, watch::Sender<bool>>>,
}

/// A container that runc has created: its process, and its output.
pub(crate) struct CreatedContainer {
    pub(crate) pid: u32,
    pub(crate) output: (ChildStdout, ChildStderr),
}

impl Runc {
    pub(crate) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), ended: Mutex::default() }
    }

    /// Creates a container from a spec. Its process waits until the container is started.
    pub(crate) async fn create(&self, id: &str, spec: &Value) -> Result<CreatedContainer> {
        let bundle = self.directory.join(id);
        std::fs::create_dir_all(&bundle)?;
        std::fs::write(bundle.join("config.json"), spec.to_string())?;
        let (pid_file, log) = (bundle.join("pid"), bundle.join("log"));
        let mut command = self.command();
        command.arg("--log").arg(&log).arg("create").arg("--bundle").arg(&bundle).arg("--pid-file").arg(&pid_file);
        let mut child = command.arg(id).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let output = child.stdout.take().zip(child.stderr.take()).context("stdout and stderr are piped")?;
        if !child.wait().await?.success() {
            bail!("runc could not create {id}: {}", std::fs::read_to_string(log).unwrap_or_default().trim());
        }
        let pid = std::fs::read_to_string(pid_file)?.trim().parse()?;
        self.ended.lock().insert(id.to_owned(), watch::Sender::new(false));
        Ok(CreatedContainer { pid, output })
    }

    pub(crate) async fn start(&self, id: &str) -> Result<()> {
        self.run(&["start", id], None).await
    }

    /// Records that the process of a container has ended and was collected.
    pub(crate) fn record_exit(&self, id: &str) {
        if let Some(ended) = self.ended.lock().get(id) {
            ended.send_replace(true);
        }
    }

    pub(crate) async fn delete(&self, id: &str) -> Result<()> {
        self.run(&["delete", "--force", id], None).await?;
        self.ended.lock().remove(id);
        Ok(())
    }

    /// Runs an operation on a container. If the container has ended in the meantime, the result is
    /// `RuntimeError::Gone`, even if its exit is noticed only now.
    async fn act(&self, id: &str, args: &[&str], input: Option<&Value>) -> Result<(), RuntimeError> {
        let mut ended = self.watch(id)?;
        let Err(error) = self.run(args, input).await else { return Ok(()) };
        let has_ended =
            self.is_stopped(id).await && timeout(EXIT_NOTICE_TIMEOUT, ended.wait_for(|ended| *ended)).await.is_ok();
        Err(if has_ended { RuntimeError::Gone } else { RuntimeError::failed(error) })
    }

    /// Asks runc whether the process of a container has ended.
    pub(crate) async fn is_stopped(&self, id: &str) -> bool {
        let output = self.command().args(["state", id]).stdin(Stdio::null()).output().await;
        let state = output.ok().and_then(|output| serde_json::from_slice::<Value>(&output.stdout).ok());
        state.is_some_and(|state| state["status"] == "stopped")
    }

    fn command(&self) -> Command {
        let mut command = Command::new("runc");
        command.arg("--root").arg(self.directory.join("state"));
        // If the caller is cancelled, runc must not run beside the next operation.
        command.kill_on_drop(true);
        command
    }

    async fn run(&self, args: &[&str], input: Option<&Value>) -> Result<()> {
        let mut command = self.command();
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let mut stdin = child.stdin.take().context("stdin is piped")?;
        if let Some(input) = input {
            stdin.write_all(input.to_string().as_bytes()).await?;
        }
        drop(stdin);
        let Output { status, stderr, .. } = child.wait_with_output().await?;
        if !status.success() {
            bail!("runc {}: {}", args.join(" "), String::from_utf8_lossy(&stderr).trim());
        }
        Ok(())
    }

    fn watch(&self, id: &str) -> Result<watch::Receiver<bool>, RuntimeError> {
        let ended = self.ended.lock();
        ended.get(id).map(watch::Sender::subscribe).filter(|ended| !*ended.borrow()).ok_or(RuntimeError::Gone)
    }
}

#[async_trait]
impl Runtime for Runc {
    fn can_update(&self, field: Field) -> bool {
        RUNC_UPDATES.contains(&field)
    }

    async fn update(&self, id: &str, limits: &ContainerLimits) -> Result<(), RuntimeError> {
        self.act(id, &["update", "--resources", "-", id], Some(&limits.resources)).await
    }

    async fn stop(&self, id: &str, grace: Duration) -> Result<(), RuntimeError> {
        let mut ended = self.watch(id)?;
        if !grace.is_zero() {
            self.act(id, &["kill", id, "TERM"], None).await?;
            if timeout(grace, ended.wait_for(|ended| *ended)).await.is_ok() {
                return Ok(());
            }
        }
        self.act(id, &["kill", id, "KILL"], None).await?;
        let gone = timeout(KILL_TIMEOUT, ended.wait_for(|ended| *ended)).await;
        gone.map(drop).map_err(RuntimeError::failed)
    }
}
