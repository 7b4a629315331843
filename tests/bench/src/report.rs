//! The figures as people read them.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::compare::{Comparison, Row};

/// Prints the comparison, and puts it between the markers in `file`.
pub(crate) fn publish(comparison: &Comparison, file: Option<&Path>) -> Result<()> {
    let table = table(comparison);
    say(&table)?;
    write(file, "relay-bench", &format!("{}\n\n{table}", circumstances(comparison)?))
}

/// Prints the comparison of the merge, and puts it between its markers in `file`.
pub(crate) fn publish_merge(table: &str, file: Option<&Path>) -> Result<()> {
    say(table)?;
    write(file, "merge-bench", table)
}

fn write(file: Option<&Path>, name: &str, section: &str) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    let page = std::fs::read_to_string(file).with_context(|| format!("could not read {}", file.display()))?;
    let page = replace(&page, name, section).with_context(|| format!("{} has no markers", file.display()))?;
    std::fs::write(file, page).with_context(|| format!("could not write {}", file.display()))
}

/// Prints to standard output.
pub(crate) fn say(text: &str) -> Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("nobody listens")
}

fn table(comparison: &Comparison) -> String {
    let baseline = comparison.baseline;
    let mut table = format!(
        "| plugins | p50, {baseline} | p50, Rust | ratio | CPU/op, {baseline} | CPU/op, Rust | ratio | bars | quiet rounds |\n\
         |--:|--:|--:|--:|--:|--:|--:|---|---|\n",
    );
    for row in &comparison.rows {
        let Row { n_plugins, go, rust, p50_ratio, cpu_ratio, quiet, rounds } = row;
        let met = if row.meets_bars() { "met" } else { "missed" };
        let line = format!(
            "| {n_plugins} | {:.0} µs | {:.0} µs | {p50_ratio:.2} | {:.0} µs | {:.0} µs | {cpu_ratio:.2} | {met} | {quiet} of {rounds} |",
            go.p50_us, rust.p50_us, go.cpu_us_per_op, rust.cpu_us_per_op,
        );
        writeln!(table, "{line}").expect("writing to a string does not fail");
    }
    table
}

/// When, where and what.
fn circumstances(comparison: &Comparison) -> Result<String> {
    let date = Command::new("date").args(["--utc", "+%F"]).output()?.stdout;
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let cpus = std::fs::read_to_string("/proc/cpuinfo")?;
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("an unnamed CPU");
    let cores = std::thread::available_parallelism()?;
    Ok(format!(
        "{date}, {cores} cores ({model}), Linux {kernel}.\n\
         Go: {go}. Rust: {rust}. One StartContainer request has {bytes} bytes.",
        date = String::from_utf8(date)?.trim(),
        model = model.trim_start_matches([' ', '\t', ':']),
        kernel = kernel.trim(),
        go = comparison.go,
        rust = comparison.rust,
        bytes = comparison.request_bytes,
    ))
}

/// `page` with `section` between the markers of that name.
fn replace(page: &str, name: &str, section: &str) -> Option<String> {
    let begin = format!("<!-- {name}: begin. Written by `make bench`; changes are lost. -->");
    let end = format!("<!-- {name}: end -->");
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n\n{section}\n{end}{after}"))
}
