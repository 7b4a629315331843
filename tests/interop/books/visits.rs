//! A plugin that joins and leaves repeatedly.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use nri_api::Happening;
use proptest::prelude::RngExt as _;
use proptest::test_runner::TestRng;
use serde_json::Value;
use tokio::process::Command;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::node::Node;
use crate::peer::PATIENCE;
use crate::program::Program;

/// The probability that a plugin stands still for a while, instead of leaving.
const PAUSES: f64 = 0.4;

pub(super) struct Visitor {
    program: PathBuf,
    socket: PathBuf,
    index: &'static str,
    /// The events about plugins.
    happenings: Receiver<Happening>,
    chance: TestRng,
    present: Option<Program>,
    /// Whether the plugin was stopped on this visit. A plugin that stands still for too long may be
    /// closed.
    has_paused: bool,
    pub(super) visits: usize,
    /// How often the plugin was stopped for a while, and how often it was closed because of that.
    pub(super) pauses: usize,
    pub(super) closed: usize,
    /// The number of events that the plugin got, on earlier visits and on this one.
    heard: u64,
    hears: u64,
}

impl Visitor {
    pub(super) fn new(
        program: &Path,
        socket: &Path,
        index: &'static str,
        happenings: Receiver<Happening>,
        chance: TestRng,
    ) -> Self {
        let (program, socket) = (program.to_owned(), socket.to_owned());
        Self {
            program,
            socket,
            index,
            happenings,
            chance,
            present: None,
            has_paused: false,
            visits: 0,
            pauses: 0,
            closed: 0,
            heard: 0,
            hears: 0,
        }
    }

    /// Joins, stays for a while and leaves, again and again. At the end the plugin is present.
    /// Sometimes, and at least once, it stands still instead of leaving.
    pub(super) async fn visit_until(mut self, is_over: CancellationToken) -> Self {
        loop {
            if self.present.is_none() {
                self.come();
            }
            let stays = Duration::from_millis(self.chance.random_range(1..1200));
            if is_over.run_until_cancelled(tokio::time::sleep(stays)).await.is_none() {
                return self;
            }
            if self.pauses == 0 || self.chance.random_bool(PAUSES) {
                self.pause(&is_over).await;
            } else {
                self.go().await;
            }
        }
    }

    /// Stands still for a while, longer than a request waits for the plugin or not.
    async fn pause(&mut self, is_over: &CancellationToken) {
        let Some(program) = &self.present else { return };
        program.signal(Signal::SIGSTOP);
        let pause = Duration::from_millis(self.chance.random_range(1..2000));
        is_over.run_until_cancelled(tokio::time::sleep(pause)).await;
        program.signal(Signal::SIGCONT);
        self.has_paused = true;
        self.pauses += 1;
    }

    pub(super) fn come(&mut self) {
        let mut command = Command::new(&self.program);
        command.arg("-socket").arg(&self.socket).args(["-index", self.index]);
        self.present = Some(Program::start(command));
        self.has_paused = false;
        self.visits += 1;
        self.heard += std::mem::take(&mut self.hears);
    }

    /// Leaves, with or without disconnecting properly. The plugin must not have found a
    /// contradiction.
    async fn go(&mut self) {
        let Some(books) = self.books().await else { return };
        assert_eq!(books["wrong"], serde_json::json!([]), "to plugin {}", self.index);
        let mut program = self.present.take().unwrap();
        if self.chance.random_bool(0.5) {
            program.kill().await;
        } else {
            program.dismiss();
            program.ended().await.unwrap();
        }
    }

    /// Returns the reasons for which the plugin was closed since the last call.
    fn closed_because(&mut self) -> Vec<String> {
        let mut reasons = Vec::new();
        loop {
            match self.happenings.try_recv() {
                Ok(Happening::Closed { plugin, reason }) if plugin.index() == self.index => reasons.push(reason),
                // Events that were dropped came before.
                Ok(_) | Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return reasons,
            }
        }
    }

    /// Returns the plugin's state, or `None` if the plugin was closed because it stood still, or
    /// because it could not join in time on a busy machine.
    async fn books(&mut self) -> Option<Value> {
        let books = self.present.as_mut().unwrap().answers("books").await;
        if books.is_none() {
            let reasons = self.closed_because();
            let was_slow = reasons.last().is_some_and(|reason| reason.contains("took too long to be"));
            assert!(self.has_paused || was_slow, "plugin {} has ended: {reasons:?}", self.index);
            self.closed += 1;
            self.present = None;
        }
        self.hears = books.as_ref().map_or(self.hears, |books| books["heard"].as_u64().unwrap());
        books
    }

    /// Returns how many events the plugin got, as far as its state was read.
    pub(super) fn events(&self) -> u64 {
        self.heard + self.hears
    }

    /// Checks the plugin's state against that of a resting runtime. Events that are still to be
    /// delivered arrive soon.
    pub(super) async fn has_the_books_of(&mut self, node: &Node) {
        let begun = Instant::now();
        loop {
            if self.present.is_none() {
                self.come();
            }
            let Some(books) = self.books().await else {
                assert!(begun.elapsed() < PATIENCE, "plugin {} cannot stay", self.index);
                continue;
            };
            assert_eq!(books["wrong"], serde_json::json!([]), "to plugin {}", self.index);
            let differences = node.differences(&books);
            if books["synchronized"] == true && differences.is_empty() {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "plugin {} is wrong about {differences:#?}", self.index);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
