//! Finds dead child processes that nobody in this process started, in `/proc`.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use rustix::process::{Pid, WaitId, WaitIdOptions};

/// A dead child that nobody in this process started, as far as can be told.
pub(super) struct Orphan {
    pub(super) pid: Pid,
    /// Whether the orphan is in the process group of this process.
    pub(super) is_of_our_group: bool,
}

/// Returns the dead children of this process that nobody in it started, as far as can be told.
pub(super) fn dead_orphans() -> Vec<Orphan> {
    // Reading /proc is expensive, and usually no child is dead. This call collects nothing.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    if !matches!(rustix::process::waitid(WaitId::All, options), Ok(Some(_))) {
        return Vec::new();
    }
    let own = rustix::process::getpid();
    let mut dead: Vec<_> = candidates(own).into_iter().filter_map(|pid| dead_child(own, pid)).collect();
    if !dead.is_empty() {
        let watched = watched();
        dead.retain(|orphan| !watched.contains(&orphan.pid));
    }
    dead
}

/// Returns the children of the first thread, or all processes if the kernel does not list children.
fn candidates(own: Pid) -> Vec<Pid> {
    let parse = |text: &str| text.parse().ok().and_then(Pid::from_raw);
    if let Ok(children) = fs::read_to_string(format!("/proc/self/task/{own}/children")) {
        return children.split_whitespace().filter_map(parse).collect();
    }
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str().and_then(parse)).collect()
}

/// Returns a process as an orphan if it is a child of this process that is dead and not collected.
fn dead_child(own: Pid, pid: Pid) -> Option<Orphan> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The process name in parentheses may contain anything, even parentheses.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let is_dead = fields.next()? == "Z";
    let mut number = || fields.next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    let (parent, group) = (number(), number());
    let is_of_our_group = group == Some(rustix::process::getpgrp());
    (is_dead && parent == Some(own)).then_some(Orphan { pid, is_of_our_group })
}

/// Returns the processes that this process has pidfds of.
fn watched() -> HashSet<Pid> {
    let entries = fs::read_dir("/proc/self/fdinfo").into_iter().flatten().flatten();
    entries.filter_map(|entry| pid_of(&entry.path())).collect()
}

/// Returns the process of a pidfd, given its `fdinfo` file. Returns `None` if the descriptor is not
/// a pidfd, or if the process was already collected.
pub(super) fn pid_of(fdinfo: &Path) -> Option<Pid> {
    let info = fs::read_to_string(fdinfo).ok()?;
    let pid = info.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    pid.trim().parse().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw)
}
