//! Waits for processes, and loses no exit.
//!
//! Each process has its own descriptor to wait on, and whoever started a process is the only one that collects it. There is
//! no wait for *any* child: that would take the exits of children that a library started, as tokio does, from their owner.
//! What remains are orphans: processes that were started by somebody who is gone, and that Linux gave to the shim since it
//! is a subreaper. It gives them to the first thread of the process. The runner serves on another one, so what is started
//! there is never taken for an orphan; nor is a process that somebody here has a descriptor of, as tokio has of each child.
//! The rest is collected when it has been dead for a while: for ten seconds, or for ten minutes if it is of the process group of
//! the shim.
//!
//! That is for a [`std::process::Child`] whose thread has ended, or is the first one. Linux hands it to the first thread as it
//! does orphans, nobody has a descriptor of it, and nothing is left that says who started it: dead and not asked for yet, it is
//! like an orphan in everything but its group, unless it was given one of its own. So its owner has ten minutes, or ten seconds
//! with a group of its own or where dozens are dead, counted from its end. What tokio or the [`Reaper`] starts is its owner's for ever.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use std::{fs, io};

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
use crate::graph::Slot;

/// The slot of the [`Reaper`]. The runner fills it.
pub const REAPER: Slot<Reaper> = Slot::new("io.containerd.internal.v1", "reaper");

/// An orphan that has been dead for so long is collected.
const ORPHAN_AGE: Duration = Duration::from_secs(10);

/// The same for one that is of our own process group, and might be somebody's child here.
const OWN_GROUP_AGE: Duration = Duration::from_secs(600);

/// If there are more dead, none is kept for longer than others.
const MAX_KEPT: usize = 64;

/// How often orphans are looked for.
const ORPHAN_PAUSE: Duration = Duration::from_secs(5);

/// How often a process is looked at that is dead, but not ours yet, at least.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// What it returned; 128 and the signal if one ended it, as containerd has it.
    pub status: u32,
    /// When that was noticed.
    pub at: SystemTime,
}

/// A process that is waited for. Clones wait for the same one.
#[derive(Clone, Debug)]
pub struct Process {
    pid: Pid,
    handle: Arc<OwnedFd>,
    exit: watch::Receiver<Option<Exit>>,
}

/// Waits for processes: see the module.
#[derive(Debug, Default)]
pub struct Reaper {
    waits: TaskTracker,
    /// Those that are waited for here. The number is how often.
    known: Arc<Mutex<HashMap<Pid, usize>>>,
    clock: Clock,
}

impl Reaper {
    /// No processes yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// No processes yet, and another clock to tell when they end.
    pub fn with_clock(clock: Clock) -> Self {
        Self { clock, ..Self::default() }
    }

    /// Starts a process and waits for it.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Process> {
        let mut child = command.spawn()?;
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let pid = pid.expect("a child that was not waited for has a pid");
        let known = WatchGuard::new(&self.known, pid);
        let handle = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => Arc::new(handle),
            Err(error) => {
                // Nobody would know of it.
                self.waits.spawn(async move {
                    let ended = child.kill().await;
                    debug!(%pid, ok = ended.is_ok(), "ended a process that could not be watched");
                    drop(known);
                });
                return Err(error.into());
            }
        };
        let (tell, exit) = watch::channel(None);
        let clock = self.clock.clone();
        self.waits.spawn(async move {
            let status = child.wait().await;
            drop(known);
            let status = match status {
                Ok(status) => code(status),
                Err(error) => {
                    warn!(%pid, %error, "could not wait for a process");
                    u32::MAX
                }
            };
            tell.send_replace(Some(Exit { status, at: clock.now() }));
        });
        Ok(Process { pid, handle, exit })
    }

    /// Waits for a process that somebody else started, and that is or becomes our child: the first process of a
    /// container, whose runtime leaves it to the shim.
    pub fn adopt(&self, pid: Pid) -> io::Result<Process> {
        let handle = Arc::new(rustix::process::pidfd_open(pid, PidfdFlags::NONBLOCK)?);
        #[expect(
            deprecated,
            reason = "its successor is unsafe, for the sake of descriptors that change; an OwnedFd does not"
        )]
        let polled = AsyncFd::with_interest(Arc::clone(&handle), Interest::READABLE)?;
        let (tell, exit) = watch::channel(None);
        let (known, clock) = (WatchGuard::new(&self.known, pid), self.clock.clone());
        self.waits.spawn(async move {
            let status = adopted(&polled).await.unwrap_or_else(|error| {
                warn!(%pid, %error, "could not wait for a process");
                u32::MAX
            });
            drop(known);
            tell.send_replace(Some(Exit { status, at: clock.now() }));
        });
        Ok(Process { pid, handle, exit })
    }

    /// Collects orphans for ever.
    pub async fn collect_orphans(&self) {
        let mut dead = HashMap::new();
        loop {
            tokio::time::sleep(ORPHAN_PAUSE).await;
            self.collect(&mut dead, Instant::now());
        }
    }

    /// Collects those that have been dead for long, and remembers since when the others are.
    pub(crate) fn collect(&self, dead: &mut HashMap<Pid, Instant>, now: Instant) {
        let orphans = dead_orphans();
        dead.retain(|pid, _| orphans.iter().any(|orphan| orphan.pid == *pid));
        let has_room = orphans.len() <= MAX_KEPT;
        for Orphan { pid, is_of_our_group } in orphans {
            let since = *dead.entry(pid).or_insert(now);
            let age = if is_of_our_group && has_room { OWN_GROUP_AGE } else { ORPHAN_AGE };
            if self.known().contains_key(&pid) || now.duration_since(since) < age {
                continue;
            }
            let collected = rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            debug!(%pid, ok = collected.is_ok(), "collected an orphan");
            dead.remove(&pid);
        }
    }

    /// How many processes are waited for.
    pub fn n_processes(&self) -> usize {
        self.known().len()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Pid, usize>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a process from being an orphan, as long as it is waited for.
struct WatchGuard {
    all: Arc<Mutex<HashMap<Pid, usize>>>,
    pid: Pid,
}

impl WatchGuard {
    fn new(all: &Arc<Mutex<HashMap<Pid, usize>>>, pid: Pid) -> Self {
        *all.lock().unwrap_or_else(PoisonError::into_inner).entry(pid).or_default() += 1;
        Self { all: Arc::clone(all), pid }
    }
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waits) = all.get_mut(&self.pid) {
            *waits -= 1;
            if *waits == 0 {
                all.remove(&self.pid);
            }
        }
    }
}

/// A dead child that nobody here started, as far as can be told.
struct Orphan {
    pid: Pid,
    is_of_our_group: bool,
}

/// The dead children of this process that nobody here started, as far as can be told.
fn dead_orphans() -> Vec<Orphan> {
    // To look at processes is dear, and most of the time no child is dead. This one takes nothing.
    let looked = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    if !matches!(rustix::process::waitid(WaitId::All, looked), Ok(Some(_))) {
        return Vec::new();
    }
    let own = rustix::process::getpid();
    let mut dead: Vec<_> = given_to_us(own).into_iter().filter_map(|pid| dead_child(own, pid)).collect();
    if !dead.is_empty() {
        let watched = watched();
        dead.retain(|orphan| !watched.contains(&orphan.pid));
    }
    dead
}

/// The children of the first thread, or all processes where Linux does not tell.
fn given_to_us(own: Pid) -> Vec<Pid> {
    let parse = |text: &str| text.parse().ok().and_then(Pid::from_raw);
    if let Ok(children) = fs::read_to_string(format!("/proc/self/task/{own}/children")) {
        return children.split_whitespace().filter_map(parse).collect();
    }
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str().and_then(parse)).collect()
}

/// A process, if it is our child, and is dead and was not collected.
fn dead_child(own: Pid, pid: Pid) -> Option<Orphan> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, parentheses too.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let is_dead = fields.next()? == "Z";
    let mut number = || fields.next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    let (parent, group) = (number(), number());
    let is_of_our_group = group == Some(rustix::process::getpgrp());
    (is_dead && parent == Some(own)).then_some(Orphan { pid, is_of_our_group })
}

/// The processes that this one has descriptors of.
fn watched() -> HashSet<Pid> {
    let entries = fs::read_dir("/proc/self/fdinfo").into_iter().flatten().flatten();
    entries.filter_map(|entry| process_of(&entry.path())).collect()
}

/// The process that a descriptor is of; `None` if it is of something else, or of a process that was collected.
fn process_of(fdinfo: &Path) -> Option<Pid> {
    let info = fs::read_to_string(fdinfo).ok()?;
    let pid = info.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    pid.trim().parse().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw)
}

/// Waits for a process by its descriptor, and collects it.
///
/// It may die before its parent has left it to us. Then there is nobody to collect yet, and it is tried again until somebody
/// else has collected it.
async fn adopted(handle: &AsyncFd<Arc<OwnedFd>>) -> io::Result<u32> {
    drop(handle.readable().await?);
    let fdinfo = format!("/proc/self/fdinfo/{}", handle.get_ref().as_raw_fd());
    let mut pause = Duration::from_millis(1);
    loop {
        let id = WaitId::PidFd(handle.get_ref().as_fd());
        match rustix::process::waitid(id, WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
            Ok(Some(status)) => return Ok(status_code(&status)),
            Ok(None) => {}
            Err(rustix::io::Errno::CHILD) if process_of(Path::new(&fdinfo)).is_some() => {}
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn status_code(status: &WaitIdStatus) -> u32 {
    let exited = status.exit_status().map(i32::cast_unsigned);
    let killed = status.terminating_signal().map(|signal| 128 + signal.cast_unsigned());
    exited.or(killed).unwrap_or(u32::MAX)
}

fn code(status: std::process::ExitStatus) -> u32 {
    use std::os::unix::process::ExitStatusExt as _;
    let killed = status.signal().map(|signal| 128 + signal.cast_unsigned());
    status.code().map(i32::cast_unsigned).or(killed).unwrap_or(u32::MAX)
}

impl Process {
    /// Its number. Another process may have it once this one has ended.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }

    /// How it ended, if it did.
    pub fn exit(&self) -> Option<Exit> {
        *self.exit.borrow()
    }

    /// Waits for its end. It may have come before.
    pub async fn wait(&mut self) -> Exit {
        let exit = self.exit.wait_for(Option::is_some).await.map(|exit| *exit);
        match exit {
            Ok(Some(exit)) => exit,
            // Whoever waits for it ends with the shim.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Sends it a signal: to it, and to no other process that got its number.
    pub fn kill(&self, signal: Signal) -> io::Result<()> {
        Ok(rustix::process::pidfd_send_signal(&*self.handle, signal)?)
    }
}
