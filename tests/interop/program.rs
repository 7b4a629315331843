//! Programs that take commands as lines, and write lines of JSON.

use std::io;
use std::process::{ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::peer::PATIENCE;

/// A running program. Dropping it kills the process.
pub(crate) struct Program {
    child: Child,
    commands: Option<ChildStdin>,
    wrote: Lines<BufReader<ChildStdout>>,
}

impl Program {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let wrote = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { commands: child.stdin.take(), wrote, child }
    }

    /// Returns the next line of the program, or `None` once it has ended.
    pub(crate) async fn wrote(&mut self) -> Option<Value> {
        let line = timeout(PATIENCE, self.wrote.next_line()).await.expect("it writes nothing").unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// Returns all further lines of the program, until it has ended.
    pub(crate) async fn wrote_last(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(line) = self.wrote().await {
            all.push(line);
        }
        all
    }

    pub(crate) async fn obey(&mut self, command: &str) {
        let commands = self.commands.as_mut().unwrap();
        commands.write_all(format!("{command}\n").as_bytes()).await.unwrap();
    }

    /// Sends a command, and returns the next line of the program, or `None` if it has ended.
    pub(crate) async fn answers(&mut self, command: &str) -> Option<Value> {
        let commands = self.commands.as_mut()?;
        commands.write_all(format!("{command}\n").as_bytes()).await.ok()?;
        self.wrote().await
    }

    /// Closes the program's input: there are no more commands.
    pub(crate) fn dismiss(&mut self) {
        self.commands = None;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.child.id().expect("it was not waited for");
        kill(Pid::from_raw(id.try_into().unwrap()), signal).unwrap();
    }

    pub(crate) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Waits until the program has ended by itself.
    pub(crate) async fn ended(mut self) -> io::Result<ExitStatus> {
        timeout(PATIENCE, self.child.wait()).await.expect("it does not end")
    }
}
