//! The figures as people read them.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::compare::Comparison;

/// Puts the comparison between the markers in `file`, and says which bars are not met.
pub(crate) fn publish(comparison: &Comparison, file: Option<&Path>) -> Result<()> {
    write(file, "relay-bench", &format!("{}\n\n{}", circumstances(comparison)?, table(comparison)))?;
    for row in comparison.missed() {
        say(&format!("not met: {row}\n"))?;
    }
    Ok(())
}

/// Prints the comparison of the merge, and puts it between its markers in `file`.
pub(crate) fn publish_merge(table: &str, file: Option<&Path>) -> Result<()> {
    say(table)?;
    write(file, "merge-bench", table)
}

/// Prints the comparison of the spec generators, and puts it between its markers in `file`.
pub(crate) fn publish_generate(table: &str, file: Option<&Path>) -> Result<()> {
    say(table)?;
    write(file, "generate-bench", table)
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
    let mut table = heading(comparison.baseline);
    for row in &comparison.rows {
        writeln!(table, "{row}").expect("writing to a string does not fail");
    }
    table
}

/// The table's first lines.
pub(crate) fn heading(baseline: &str) -> String {
    format!("| what | {baseline} | Rust | ratio or delay | bar | | quiet rounds |\n|---|--:|--:|--:|--:|---|--:|\n")
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
         Go: {go}. Rust: {rust}. A StartContainer request has {bytes} bytes.",
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
