//! Formats the figures for people.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use crate::compare::Comparison;
use crate::page::{circumstances, say, write};

/// Writes the comparison between the markers in `file`, and prints which bars are not met.
pub(crate) fn publish(comparison: &Comparison, file: Option<&Path>) -> Result<()> {
    write(file, "relay-bench", &format!("{}\n\n{}", surroundings(comparison)?, table(comparison)))?;
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

fn table(comparison: &Comparison) -> String {
    let mut table = heading(comparison.baseline);
    for row in &comparison.rows {
        writeln!(table, "{row}").expect("writing to a string does not fail");
    }
    table
}

/// Returns the first lines of the table.
pub(crate) fn heading(baseline: &str) -> String {
    format!("| what | {baseline} | Rust | ratio or delay | bar | | quiet rounds |\n|---|--:|--:|--:|--:|---|--:|\n")
}

/// Returns when, where and what was measured.
fn surroundings(comparison: &Comparison) -> Result<String> {
    let Comparison { go, rust, request_bytes, rows: _, baseline: _ } = comparison;
    let machine = circumstances()?;
    Ok(format!("{machine}\nGo: {go}. Rust: {rust}. A StartContainer request has {request_bytes} bytes."))
}
