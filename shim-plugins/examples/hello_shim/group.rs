//! The processes of a container: a process group, whose first process may have ended long ago.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

/// A process group, and when its first process started.
///
/// Linux does not reuse the number of a group that has members. So if the process of that number
/// started at another time, our group is gone. If there is no such process, the remaining members
/// belong to our group.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Group {
    pub(crate) pid: u32,
    started: u64,
}

impl Group {
    /// Returns the group that a process has just created.
    pub(crate) fn of(pid: u32) -> Self {
        Self { pid, started: stat(pid).map_or(0, |stat| stat.started) }
    }

    /// Returns whether a member of the group is alive.
    fn is_alive(self) -> bool {
        if stat(self.pid).is_some_and(|first| first.started != self.started) {
            return false;
        }
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter_map(stat).any(|stat| stat.group == self.pid && !stat.is_dead)
    }

    /// Sends a signal to all members.
    pub(crate) fn signal(self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid.cast_signed()).filter(|_| self.is_alive()) {
            // The members may end at any time.
            let _ = rustix::process::kill_process_group(pid, signal);
        }
    }

    /// Kills all members, including processes that they start meanwhile.
    pub(crate) async fn kill(self) {
        while self.is_alive() {
            self.signal(Signal::KILL);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Some fields of `/proc/PID/stat`.
struct Stat {
    is_dead: bool,
    group: u32,
    started: u64,
}

/// Reads `/proc/PID/stat` of a process.
fn stat(pid: u32) -> Option<Stat> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The process name in parentheses may contain anything, even parentheses.
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<_> = rest.split(' ').collect();
    Some(Stat {
        is_dead: fields.first()? == &"Z",
        group: fields.get(2)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}
