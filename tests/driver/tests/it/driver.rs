//! The driver and its plugins, as processes.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use nri_proto::{Container, Pod, api};
use protobuf::Message;
use serde_json::{Value, json};

pub(crate) struct Driver {
    pub(crate) child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    directory: tempfile::TempDir,
}

impl Driver {
    pub(crate) fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nri-driver"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output, directory: tempfile::tempdir().unwrap() }
    }

    /// Starts a driver and its runtime, with events and with these options.
    pub(crate) fn running(options: &Value) -> Self {
        let mut driver = Self::start();
        let mut line = json!({"id": 1, "cmd": "start", "socket": driver.socket(), "callbacks": true});
        line.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        assert_eq!(driver.ask(&line), json!({"id": 1, "ok": true}));
        driver
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn socket(&self) -> String {
        self.directory.path().join("nri.sock").to_str().unwrap().to_owned()
    }

    pub(crate) fn say(&mut self, line: &Value) {
        writeln!(self.input, "{line}").unwrap();
    }

    pub(crate) fn line(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    pub(crate) fn ask(&mut self, line: &Value) -> Value {
        self.say(line);
        self.line()
    }

    /// Calls an operation on a container.
    pub(crate) fn call(&mut self, op: &str) -> Value {
        self.ask(&json!({"id": 2, "cmd": "call", "op": op, "request_b64": about_container()}))
    }

    /// Starts a plugin, and waits until the driver reports that it has joined.
    pub(crate) fn join(&mut self, program: &Path, arguments: &[&str]) -> Plugin {
        let plugin = Plugin::start(program, &self.socket(), arguments);
        assert_eq!(self.line()["event"], "synced");
        assert_eq!(self.line()["state"], "active");
        plugin
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A plugin on Go's stub.
pub(crate) struct Plugin {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Plugin {
    pub(crate) fn start(program: &Path, socket: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(["-socket", socket]).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// Returns the next line of the plugin that has this key.
    pub(crate) fn told(&mut self, key: &str) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it has ended");
            let line: Value = serde_json::from_str(&line).unwrap();
            if line.get(key).is_some() {
                return line;
            }
        }
    }

    /// Stops the plugin, so that it answers nothing from now on.
    pub(crate) fn freeze(&self) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), Signal::SIGSTOP).unwrap();
        while !self.is_frozen() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns whether each thread of the plugin has stopped. A thread that runs might still
    /// answer.
    fn is_frozen(&self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let mut stats = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("stat")));
        stats.all(|stat| stat.is_ok_and(|stat| stat.contains(") T ")))
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a request about container `c` of pod `p`. All requests about a container have this form.
pub(crate) fn about_container() -> Value {
    let pod = Pod { id: "p".to_owned(), ..Pod::default() };
    let container = Container { id: "c".to_owned(), pod_id: "p".to_owned(), ..Container::default() };
    let (pod, container) = (Some(pod.into()).into(), Some(container.into()).into());
    encode(&api::CreateContainerRequest { pod, container, ..Default::default() })
}

pub(crate) fn encode(message: &impl Message) -> Value {
    STANDARD.encode(message.write_to_bytes().unwrap()).into()
}

pub(crate) fn decode<M: Message>(encoded: &Value) -> M {
    M::parse_from_bytes(&STANDARD.decode(encoded.as_str().unwrap()).unwrap()).unwrap()
}
