//! A plugin that comes and goes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::RngExt as _;
use proptest::test_runner::TestRng;
use serde_json::Value;
use tokio::process::Command;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::node::Node;
use crate::peer::PATIENCE;
use crate::program::Program;

pub(super) struct Visitor {
    program: PathBuf,
    socket: PathBuf,
    index: &'static str,
    chance: TestRng,
    present: Option<Program>,
    pub(super) visits: usize,
    /// How many events it was told, all in all.
    pub(super) heard: u64,
}

impl Visitor {
    pub(super) fn new(program: &Path, socket: &Path, index: &'static str, chance: TestRng) -> Self {
        let (program, socket) = (program.to_owned(), socket.to_owned());
        Self { program, socket, index, chance, present: None, visits: 0, heard: 0 }
    }

    /// Comes, stays for a while and goes, again and again, and is there at the end.
    pub(super) async fn visit_until(mut self, is_over: CancellationToken) -> Self {
        loop {
            if self.present.is_none() {
                self.come();
            }
            let stays = Duration::from_millis(self.chance.random_range(1..800));
            if is_over.run_until_cancelled(tokio::time::sleep(stays)).await.is_none() {
                return self;
            }
            self.go().await;
        }
    }

    pub(super) fn come(&mut self) {
        let mut command = Command::new(&self.program);
        command.arg("-socket").arg(&self.socket).args(["-index", self.index]);
        self.present = Some(Program::start(command));
        self.visits += 1;
    }

    /// Goes, politely or not. Nothing may have been wrong until then.
    async fn go(&mut self) {
        let books = self.books().await;
        assert_eq!(books["wrong"], serde_json::json!([]), "to plugin {}", self.index);
        self.heard += books["heard"].as_u64().unwrap();
        let mut program = self.present.take().unwrap();
        if self.chance.random_bool(0.5) {
            program.kill().await;
        } else {
            program.dismiss();
            program.ended().await.unwrap();
        }
    }

    async fn books(&mut self) -> Value {
        let program = self.present.as_mut().unwrap();
        program.obey("books").await;
        program.wrote().await.expect("the plugin has ended")
    }

    /// Checks its books against those of a runtime at rest. What it is yet to hear it hears soon.
    pub(super) async fn has_the_books_of(&mut self, node: &Node) {
        let begun = Instant::now();
        loop {
            let books = self.books().await;
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
