//! Kills `start` and servers at random moments.

use std::process::Child;
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process};

use crate::daemon::{Daemon, lives, until};

/// The kills of one run, unless `NRI_KILLS` says otherwise.
const KILLS: u32 = 30;

/// Removes the container, whatever is left of it. Returns whether nothing is.
fn is_removed(daemon: &Daemon) -> bool {
    let _ = daemon.ctr(&["task", "rm", "-f", "c1"]);
    let _ = daemon.ctr(&["container", "rm", "c1"]);
    !daemon.ctr_ok(&["container", "ls", "-q"]).contains("c1") && daemon.task("c1").is_none()
}

/// Returns the processes of the shim that perform an action: `start`, `serve` or `delete`.
fn performing(daemon: &Daemon, action: &str) -> Vec<u32> {
    let is_last_word = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.strip_suffix(b"\0").is_some_and(|line| line.ends_with(format!("\0{action}").as_bytes()))
    };
    daemon.shims().into_iter().filter(is_last_word).collect()
}

/// Kills processes, some of which may have ended.
fn kill(pids: &[u32]) {
    for pid in pids {
        let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL);
    }
}

/// Begins to run the container. Returns `start` as soon as it runs, unless it is too quick.
fn begin(daemon: &Daemon) -> (Child, Vec<u32>) {
    let mut ctr = daemon.begin(&["-d"], "c1", &["sleep", "1000"]);
    loop {
        // Without a pause: `start` takes few milliseconds.
        let starts = performing(daemon, "start");
        if !starts.is_empty() || !matches!(ctr.try_wait(), Ok(None)) {
            return (ctr, starts);
        }
    }
}

fn clean_up(daemon: &Daemon) {
    until("it is removed", || is_removed(daemon));
    // A server that nobody knows sees that its bundle is gone.
    until("the shims end", || daemon.shims().is_empty());
}

pub(crate) fn a_start_and_a_server_that_are_killed_at_random_moments_leave_nothing(daemon: &mut Daemon) {
    let (mut ctr, starts) = begin(daemon);
    let begun = Instant::now();
    while starts.iter().any(|&pid| lives(pid)) {}
    let usual = u64::try_from(begun.elapsed().as_micros()).unwrap();
    ctr.wait().unwrap();
    clean_up(daemon);
    let kills = std::env::var("NRI_KILLS").map_or(KILLS, |n| n.parse().unwrap());
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut n_killed = 0;
    for round in 0..kills {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (mut ctr, starts) = begin(daemon);
        thread::sleep(Duration::from_micros((random >> 32) % (usual * 3 / 2).max(1)));
        // Every fourth kill is of the server, every fourth of both.
        let kinds = round % 4;
        if kinds > 0 {
            n_killed += starts.iter().filter(|&&pid| lives(pid)).count();
            kill(&starts);
        }
        if kinds < 2 {
            kill(&performing(daemon, "serve"));
        }
        ctr.wait().unwrap();
        clean_up(daemon);
    }
    assert!(n_killed > 0, "no start was killed in {kills} rounds");
    // The next `start` removes a socket that is left.
    let socket = daemon.socket_to_be("c1");
    daemon.run_detached(&[], "c1", "exec sleep 1000");
    clean_up(daemon);
    assert!(!socket.exists(), "{} is left", socket.display());
}
