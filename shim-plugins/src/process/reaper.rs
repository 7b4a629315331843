//! The reaper: starts, adopts and awaits child processes, and loses no exit.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
pub use rustix::process::{Pid, Signal};
use rustix::process::{PidfdFlags, WaitId, WaitIdOptions, WaitIdStatus};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::clock::Clock;
use super::orphans::{Orphan, dead_orphans, pid_of};
use crate::graph::Slot;

/// The slot of the [`Reaper`], which every shim has.
pub const REAPER: Slot<Reaper> = Slot::new("io.containerd.internal.v1", "reaper");

/// An orphan is collected when it has been dead for this long.
const ORPHAN_AGE: Duration = Duration::from_secs(10);

/// A dead child in the shim's own process group, which may have an owner, is collected after this.
const OWN_GROUP_AGE: Duration = Duration::from_secs(600);

/// With more dead children than this, [`OWN_GROUP_AGE`] does not apply.
const MAX_KEPT: usize = 64;

/// The interval between looks for orphans.
const ORPHAN_PAUSE: Duration = Duration::from_secs(5);

/// The longest pause between attempts to collect a dead process that is not our child yet.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How and when a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code, or 128 plus the signal that ended the process, as containerd counts.
    pub status: u32,
    /// When the end was noticed.
    pub at: SystemTime,
}

/// A process that the [`Reaper`] waits for. Clones refer to the same process.
#[derive(Clone, Debug)]
pub struct Process {
    pid: Pid,
    handle: Arc<OwnedFd>,
    exit: watch::Receiver<Option<Exit>>,
}

impl Process {
    /// Returns the process id. The system may reuse it after the process has ended.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }

    /// Returns how the process ended, or `None` while it runs.
    pub fn exit(&self) -> Option<Exit> {
        *self.exit.borrow()
    }

    /// Waits for the end of the process. Returns at once if the process has ended.
    pub async fn wait(&mut self) -> Exit {
        let exit = self.exit.wait_for(Option::is_some).await.map(|exit| *exit);
        match exit {
            Ok(Some(exit)) => exit,
            // The waiting task is gone, so the shim is ending.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Sends a signal to the process, and never to another process that reuses its id.
    pub fn kill(&self, signal: Signal) -> io::Result<()> {
        Ok(rustix::process::pidfd_send_signal(&*self.handle, signal)?)
    }
}

/// Starts, adopts and awaits child processes, and collects orphans.
///
/// The reaper waits for each process by its own pidfd, and only the owner of a process collects it.
/// A shim must never wait for *any* child, because that takes the exits of children that a library
/// such as Tokio started.
///
/// # Orphans
///
/// Orphans are processes whose parent is gone and that Linux gave to the shim, which is a
/// subreaper. The reaper collects an orphan that has been dead for ten seconds, or for ten minutes
/// if the orphan is in the process group of the shim.
///
/// Linux gives orphans to the first thread of a process. The runner serves on another thread, so
/// its children are not mistaken for orphans; neither is a process that this process has a pidfd
/// of, as Tokio has for each of its children.
///
/// One kind of child can look like an orphan: a [`std::process::Child`] whose thread has ended, or
/// is the first thread. Its owner must collect it within ten minutes of its end, or within ten
/// seconds if the child has a process group of its own, or if dozens of children are dead.
#[derive(Debug, Default)]
pub struct Reaper {
    waits: TaskTracker,
    watched: WatchedPids,
    clock: Clock,
}

impl Reaper {
    /// Creates a reaper without processes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a reaper that takes the times of exits from `clock`.
    pub fn with_clock(clock: Clock) -> Self {
        Self { clock, ..Self::default() }
    }

    /// Starts a process, and waits for its end in the background.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Process> {
        let mut child = command.spawn()?;
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let pid = pid.expect("a child that was not waited for has a pid");
        let guard = WatchGuard::new(&self.watched, pid);
        let handle = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => Arc::new(handle),
            Err(error) => {
                // Without a pidfd nobody can wait for the process.
                self.waits.spawn(async move {
                    let ended = child.kill().await;
                    debug!(%pid, ok = ended.is_ok(), "killed a process that cannot be watched");
                    drop(guard);
                });
                return Err(error.into());
            }
        };
        let (tell, exit) = watch::channel(None);
        let clock = self.clock.clone();
        self.waits.spawn(async move {
            let status = child.wait().await;
            drop(guard);
            let status = match status {
                Ok(status) => status_of_exit(status),
                Err(error) => {
                    warn!(%pid, %error, "could not wait for a process");
                    u32::MAX
                }
            };
            tell.send_replace(Some(Exit { status, at: clock.now() }));
        });
        Ok(Process { pid, handle, exit })
    }

    /// Waits for a process that somebody else started, and that is or becomes a child of this
    /// process.
    ///
    /// An example is the first process of a container, whose runtime exits and leaves it to the
    /// shim.
    pub fn adopt(&self, pid: Pid) -> io::Result<Process> {
        let handle = Arc::new(rustix::process::pidfd_open(pid, PidfdFlags::NONBLOCK)?);
        #[expect(
            deprecated,
            reason = "the replacement is unsafe, because a descriptor may change; an OwnedFd does not"
        )]
        let polled = AsyncFd::with_interest(Arc::clone(&handle), Interest::READABLE)?;
        let (tell, exit) = watch::channel(None);
        let (guard, clock) = (WatchGuard::new(&self.watched, pid), self.clock.clone());
        self.waits.spawn(async move {
            let status = collect_adopted(&polled).await.unwrap_or_else(|error| {
                warn!(%pid, %error, "could not wait for a process");
                u32::MAX
            });
            drop(guard);
            tell.send_replace(Some(Exit { status, at: clock.now() }));
        });
        Ok(Process { pid, handle, exit })
    }

    /// Collects orphans periodically. This future never completes.
    pub async fn collect_orphans(&self) {
        let mut dead = HashMap::new();
        loop {
            tokio::time::sleep(ORPHAN_PAUSE).await;
            self.collect(&mut dead, Instant::now());
        }
    }

    /// Collects the orphans that have been dead for long enough. `dead` keeps the time at which
    /// each of the others was first seen dead.
    pub(crate) fn collect(&self, dead: &mut HashMap<Pid, Instant>, now: Instant) {
        let orphans = dead_orphans();
        dead.retain(|pid, _| orphans.iter().any(|orphan| orphan.pid == *pid));
        let has_room = orphans.len() <= MAX_KEPT;
        for Orphan { pid, is_of_our_group } in orphans {
            let since = *dead.entry(pid).or_insert(now);
            let age = if is_of_our_group && has_room { OWN_GROUP_AGE } else { ORPHAN_AGE };
            if self.watched.lock().contains_key(&pid) || now.duration_since(since) < age {
                continue;
            }
            let collected = rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            debug!(%pid, ok = collected.is_ok(), "collected an orphan");
            dead.remove(&pid);
        }
    }

    /// Returns the number of processes that the reaper waits for.
    pub fn n_processes(&self) -> usize {
        self.watched.lock().len()
    }
}

/// The processes that are waited for, each with the number of waits.
type WatchedPids = Arc<Mutex<HashMap<Pid, usize>>>;

/// Marks a process as waited for until it is dropped, so that it does not count as an orphan.
struct WatchGuard {
    watched: WatchedPids,
    pid: Pid,
}

impl WatchGuard {
    fn new(watched: &WatchedPids, pid: Pid) -> Self {
        *watched.lock().entry(pid).or_default() += 1;
        Self { watched: Arc::clone(watched), pid }
    }
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        let mut watched = self.watched.lock();
        if let Some(waits) = watched.get_mut(&self.pid) {
            *waits -= 1;
            if *waits == 0 {
                watched.remove(&self.pid);
            }
        }
    }
}

/// Waits for a process by its pidfd, collects it, and returns its status.
///
/// The process may die before its parent leaves it to this process. Collecting fails until then, so
/// it is tried again, unless the pidfd shows that somebody else collected the process.
async fn collect_adopted(handle: &AsyncFd<Arc<OwnedFd>>) -> io::Result<u32> {
    drop(handle.readable().await?);
    let fdinfo = format!("/proc/self/fdinfo/{}", handle.get_ref().as_raw_fd());
    let mut pause = Duration::from_millis(1);
    loop {
        let id = WaitId::PidFd(handle.get_ref().as_fd());
        match rustix::process::waitid(id, WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
            Ok(Some(status)) => return Ok(status_of_wait(&status)),
            Ok(None) => {}
            Err(rustix::io::Errno::CHILD) if pid_of(Path::new(&fdinfo)).is_some() => {}
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn status_of_wait(status: &WaitIdStatus) -> u32 {
    let exited = status.exit_status().map(i32::cast_unsigned);
    let killed = status.terminating_signal().map(|signal| 128 + signal.cast_unsigned());
    exited.or(killed).unwrap_or(u32::MAX)
}

fn status_of_exit(status: std::process::ExitStatus) -> u32 {
    use std::os::unix::process::ExitStatusExt as _;
    let killed = status.signal().map(|signal| 128 + signal.cast_unsigned());
    status.code().map(i32::cast_unsigned).or(killed).unwrap_or(u32::MAX)
}
