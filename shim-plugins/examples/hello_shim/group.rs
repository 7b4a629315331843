//! The processes of a container: a process group, whose first process may be long gone.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

/// A process group, and when its first process began.
///
/// Linux gives nobody the number of a group that has members. So a first process that began at another time means that ours
/// are all gone, and none at all that those who are left are ours.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Group {
    pub(crate) pid: u32,
    began: u64,
}

impl Group {
    /// The group that a process has just made.
    pub(crate) fn of(pid: u32) -> Self {
        Self { pid, began: stat(pid).map_or(0, |stat| stat.began) }
    }

    /// Whether a member lives.
    fn lives(self) -> bool {
        if stat(self.pid).is_some_and(|first| first.began != self.began) {
            return false;
        }
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter_map(stat).any(|stat| stat.group == self.pid && !stat.is_dead)
    }

    /// Sends a signal to all members.
    pub(crate) fn signal(self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid.cast_signed()).filter(|_| self.lives()) {
            // They may end at any time.
            let _ = rustix::process::kill_process_group(pid, signal);
        }
    }

    /// Kills all members, and those that they make meanwhile.
    pub(crate) async fn kill(self) {
        while self.lives() {
            self.signal(Signal::KILL);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

struct Stat {
    is_dead: bool,
    group: u32,
    began: u64,
}

/// What Linux says about a process.
fn stat(pid: u32) -> Option<Stat> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, parentheses too.
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<_> = rest.split(' ').collect();
    Some(Stat {
        is_dead: fields.first()? == &"Z",
        group: fields.get(2)?.parse().ok()?,
        began: fields.get(19)?.parse().ok()?,
    })
}
