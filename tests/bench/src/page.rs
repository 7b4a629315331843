//! The page into which figures are written.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// Prints to standard output.
pub(crate) fn say(text: &str) -> Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("nobody listens")
}

/// Puts `section` between the markers of that name in `file`, if there is one.
pub(crate) fn write(file: Option<&Path>, name: &str, section: &str) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    let page = std::fs::read_to_string(file).with_context(|| format!("could not read {}", file.display()))?;
    let page = replace(&page, name, section).with_context(|| format!("{} has no markers", file.display()))?;
    std::fs::write(file, page).with_context(|| format!("could not write {}", file.display()))
}

/// Returns when and where the figures were measured.
pub(crate) fn circumstances() -> Result<String> {
    let date = Command::new("date").args(["--utc", "+%F"]).output()?.stdout;
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let cpus = std::fs::read_to_string("/proc/cpuinfo")?;
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("an unnamed CPU");
    let cores = std::thread::available_parallelism()?;
    Ok(format!(
        "{date}, {cores} cores ({model}), Linux {kernel}.",
        date = String::from_utf8(date)?.trim(),
        model = model.trim_start_matches([' ', '\t', ':']),
        kernel = kernel.trim(),
    ))
}

/// Returns `page` with `section` between the markers of this name: comments that begin with the
/// name.
fn replace(page: &str, name: &str, section: &str) -> Option<String> {
    let (before, rest) = page.split_once(&format!("<!-- {name}: begin."))?;
    let (by, rest) = rest.split_once("-->")?;
    let end = format!("<!-- {name}: end -->");
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}<!-- {name}: begin.{by}-->\n\n{section}\n{end}{after}"))
}
