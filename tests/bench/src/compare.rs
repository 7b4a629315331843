//! The comparison: its cases and its results.

use std::path::Path;

use anyhow::Result;
use protobuf::Message;

use crate::awake::Awake;
use crate::job::Op;
use crate::options::{Case, Options};
use crate::process::{ADJUSTS, Cluster, PLAIN, Setup, Side};
use crate::row::Row;
use crate::{beside, crowd, joining, latency, memory, page, payload, report};

/// The number of plugins that adjust containers.
const ADJUSTING: usize = 3;
const GO: &str = "Go";

/// The results of the comparison.
pub(crate) struct Comparison {
    pub(crate) rows: Vec<Row>,
    pub(crate) request_bytes: usize,
    /// The baseline of the comparison.
    pub(crate) baseline: &'static str,
    pub(crate) go: String,
    pub(crate) rust: String,
}

/// The parts that every case needs.
pub(crate) struct Bench<'a> {
    pub(crate) options: &'a Options,
    request: &'a Path,
    awake: Awake,
    rows: Vec<Row>,
    go: String,
    rust: String,
}

impl Bench<'_> {
    pub(crate) fn cluster(&mut self, side: Side, setup: &Setup) -> Result<Cluster> {
        let cluster = Cluster::start(side, setup, self.request, self.options, self.awake.pid())?;
        match side {
            Side::Go => self.go.clone_from(&cluster.versions),
            Side::Rust => self.rust.clone_from(&cluster.versions),
        }
        Ok(cluster)
    }

    fn compare(&mut self, case: Case) -> Result<()> {
        match case {
            Case::Empty => {
                for &n_plugins in &self.options.plugins {
                    let rows = latency::compare(self, n_plugins, PLAIN, &[Op::Start, Op::Create])?;
                    self.found(rows)?;
                }
                Ok(())
            }
            Case::Adjust => {
                let rows = latency::compare(self, ADJUSTING, ADJUSTS, &[Op::Create])?;
                self.found(rows)
            }
            Case::Crowd => {
                let row = crowd::all_slow(self)?;
                self.found([row])?;
                let row = crowd::one_per_pod(self)?;
                self.found([row])
            }
            Case::Beside => {
                let row = beside::compare(self)?;
                self.found([row])
            }
            Case::Joining => {
                let rows = joining::compare(self)?;
                self.found(rows)
            }
            Case::Memory => {
                let row = memory::compare(self)?;
                self.found([row])
            }
        }
    }

    fn found(&mut self, rows: impl IntoIterator<Item = Row>) -> Result<()> {
        for row in rows {
            page::say(&format!("{row}\n"))?;
            self.rows.push(row);
        }
        Ok(())
    }
}

impl Comparison {
    /// Returns the rows whose bars are not met. The bars apply to the comparison with Go.
    pub(crate) fn missed(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| self.baseline == GO && !row.meets_bar())
    }
}

/// Runs the whole comparison, and prints each result at once.
pub(crate) fn compare(options: &Options) -> Result<Comparison> {
    let encoded = payload::request().write_to_bytes()?;
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), &encoded)?;
    let baseline = if options.baseline.is_some() { "baseline" } else { GO };
    let awake = Awake::start()?;
    let mut bench =
        Bench { options, request: file.path(), awake, rows: vec![], go: String::new(), rust: String::new() };
    page::say(&report::heading(baseline))?;
    for case in &options.only {
        bench.compare(*case)?;
    }
    let Bench { options: _, request: _, awake: _, rows, go, rust } = bench;
    Ok(Comparison { rows, request_bytes: encoded.len(), baseline, go, rust })
}
