//! A runtime on Go's own adaptation.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use nri_proto::Event;
use nri_tests::go;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::program::Program;
use crate::stubs::Version;

/// The file for the error output of plugins.
const COMPLAINTS: &str = "complaints";

/// A machine with a version of Go's NRI: a runtime can be started on it repeatedly.
pub(crate) struct Host {
    pub(crate) version: Version,
    runtime: PathBuf,
    directory: tempfile::TempDir,
}

impl Host {
    /// Creates a host. Returns `None` if Go is missing.
    pub(crate) fn new(version: Version) -> Option<Self> {
        let runtime = go::peer(version.tag(), "runtime").ok()?;
        Some(Self { version, runtime, directory: tempfile::tempdir().unwrap() })
    }

    /// Returns a path in the directory of this host.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts the runtime on the socket of this host, with containers and with these arguments.
    pub(crate) async fn start(&self, args: &[&str]) -> GoRuntime {
        let mut command = Command::new(&self.runtime);
        command.arg("-socket").arg(self.path("nri.sock")).args(args);
        let mut runtime = GoRuntime { program: Program::start(command), unread: VecDeque::new() };
        runtime.until(|line| line["did"] == "start").await;
        runtime
    }

    /// Starts a plugin that connects to the socket of this host. Its error output is printed if the
    /// test fails.
    pub(crate) fn plugin(&self, program: &Path, args: &[&str]) -> Program {
        let complaints = File::options().create(true).append(true).open(self.path(COMPLAINTS)).unwrap();
        let mut command = Command::new(program);
        command.arg("--socket").arg(self.path("nri.sock")).args(args).stderr(complaints);
        Program::start(command)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the plugins said:\n{}", fs::read_to_string(self.path(COMPLAINTS)).unwrap_or_default());
        }
    }
}

/// A running runtime. Dropping it kills the process.
pub(crate) struct GoRuntime {
    program: Program,
    /// Lines of the runtime that no test has read yet.
    unread: VecDeque<Value>,
}

impl GoRuntime {
    /// Returns the first line of the runtime that satisfies `is_such`. Earlier lines stay unread.
    pub(crate) async fn until(&mut self, is_such: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.unread.iter().position(&is_such) {
            return self.unread.remove(place).unwrap();
        }
        loop {
            let Some(line) = self.program.wrote().await else { panic!("it ended after {:#?}", self.unread) };
            if is_such(&line) {
                return line;
            }
            self.unread.push_back(line);
        }
    }

    /// Waits until the log has this text.
    pub(crate) async fn logs(&mut self, text: &str) {
        self.until(|line| line["log"].as_str().is_some_and(|log| log.contains(text))).await;
    }

    /// Waits until a plugin has joined, and returns its snapshot and the updates that it asked for.
    pub(crate) async fn joined(&mut self, plugin: &str) -> Value {
        // The oldest versions log this even if they do not synchronize the plugin.
        self.logs(&format!("plugin \"{plugin}\" connected")).await;
        let place = self.unread.iter().rposition(|line| line["synchronized"].is_array()).unwrap();
        self.unread.remove(place).unwrap()
    }

    /// Notifies plugins of an event of the pod, or of its container `c0`, and returns the reply.
    pub(crate) async fn tell(&mut self, event: Event) -> Result<Value, String> {
        let mut request = json!({"pod": {"id": "p"}});
        if event.rpc().ends_with("Container") {
            request["container"] = json!({"id": "c0", "pod_sandbox_id": "p"});
        }
        self.ask(event, request).await
    }

    /// Relays a request to the plugins, and returns the reply.
    pub(crate) async fn ask(&mut self, event: Event, request: Value) -> Result<Value, String> {
        self.program.obey(&json!({"do": event.rpc(), "request": request}).to_string()).await;
        let answer = self.until(|line| line["did"] == event.rpc()).await;
        match answer["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer["reply"].clone()),
        }
    }

    /// Stops the runtime, as an administrator does.
    pub(crate) async fn stop(mut self) {
        self.program.dismiss();
        self.program.wrote_last().await;
        assert!(self.program.ended().await.unwrap().success());
    }

    /// Kills the runtime, as a crash does.
    pub(crate) async fn kill(mut self) {
        self.program.kill().await;
    }
}
