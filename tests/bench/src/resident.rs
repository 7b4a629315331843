//! The memory of a process.

use std::fs;

use anyhow::Result;

/// Returns the memory of a process in MiB: the private dirty memory, and the resident memory.
pub(crate) fn memory(pid: u32) -> Result<[f64; 2]> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let of = |key: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse::<f64>().ok());
        line.unwrap_or(f64::NAN) / 1024.0
    };
    Ok([of("Private_Dirty:"), of("Rss:")])
}
