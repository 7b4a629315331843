use std::collections::HashMap;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Pid;
use tokio::process::Command;
use tokio::time::Instant;

use crate::Reaper;
use crate::process::own_process::in_own_process;

fn sh(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    command
}

#[test]
fn g13_no_exit_is_lost_among_hundreds_of_children_of_several_owners() {
    alone(async {
        let reaper = Reaper::new();
        let collecting = reaper.collect_orphans();
        let waiting = async {
            let mut ours = Vec::new();
            let mut tokios = Vec::new();
            for status in 0..500_u32 {
                ours.push((status % 100, reaper.spawn(&mut sh(&format!("exit {}", status % 100))).unwrap()));
                tokios.push((status % 100, sh(&format!("exit {}", status % 100)).spawn().unwrap()));
            }
            for (status, mut process) in ours {
                assert_eq!(process.wait().await.status, status);
            }
            for (status, mut child) in tokios {
                assert_eq!(child.wait().await.unwrap().code(), Some(status.cast_signed()));
            }
        };
        tokio::select! {
            () = collecting => unreachable!("it collects for ever"),
            () = waiting => {}
        }
        assert_eq!(reaper.n_processes(), 0);
    });
}

#[tokio::test]
async fn a_signal_that_ends_a_process_is_told_as_containerd_does() {
    let reaper = Reaper::new();
    let mut process = reaper.spawn(&mut sh("sleep 60")).unwrap();
    process.kill(rustix::process::Signal::KILL).unwrap();
    assert_eq!(process.wait().await.status, 137);
    // A second waiter that comes late receives the exit, too.
    assert_eq!(process.clone().wait().await.status, 137);
    assert!(process.kill(rustix::process::Signal::KILL).is_err(), "it is gone, and so is its number");
}

#[tokio::test]
#[expect(clippy::zombie_processes, reason = "the reaper waits for it")]
async fn a_child_that_another_library_started_can_be_adopted() {
    let reaper = Reaper::new();
    let child = std::process::Command::new("/bin/sh").args(["-c", "exit 9"]).spawn().unwrap();
    let pid = Pid::from_child(&child);
    let mut process = reaper.adopt(pid).unwrap();
    let exit = tokio::time::timeout(Duration::from_secs(10), process.wait()).await.unwrap();
    assert_eq!(exit.status, 9);
}

fn is_dead(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
}

async fn until(mut is_true: impl FnMut() -> bool) {
    let waiting = async {
        while !is_true() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waiting).await.unwrap();
}

/// A shell script: starts a process that ends with the standard input of the shell, prints the id
/// of the process, and ends.
const LEAVES_ONE_BEHIND: &str = "exec 3<&0; cat <&3 >/dev/null & echo $!";

/// Lets a shell leave a process behind, and returns the id of the process after its death. The
/// process ends after the shell, because a shell may collect its children.
async fn dead_orphan(shell: &mut Command) -> u32 {
    let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let until_dropped = shell.stdin.take();
    let said = shell.wait_with_output().await.unwrap().stdout;
    drop(until_dropped);
    let orphan = String::from_utf8(said).unwrap().trim().parse().unwrap();
    until(|| is_dead(orphan)).await;
    orphan
}

/// Runs a test in a process of its own, because a reaper looks at all children of its process. Like
/// the runner, the test is not on the first thread, to which Linux gives orphans.
fn alone(test: impl Future<Output = ()> + Send + 'static) {
    in_own_process(test, |test| {
        let run = move || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
        std::thread::spawn(run).join().unwrap();
    });
}

/// Lets the reaper look for orphans now, and one hour later.
fn collect(reaper: &Reaper) {
    let (mut dead, now) = (HashMap::new(), Instant::now());
    reaper.collect(&mut dead, now);
    reaper.collect(&mut dead, now + Duration::from_secs(3600));
}

#[test]
fn g13_a_status_is_its_owners_however_late_it_is_asked_for() {
    alone(async {
        let mut of_tokio = sh("exit 5").spawn().unwrap();
        let mut of_std = std::process::Command::new("/bin/sh").args(["-c", "exit 6"]).spawn().unwrap();
        let pids = [of_tokio.id().unwrap(), of_std.id()];
        until(|| pids.iter().all(|&pid| is_dead(pid))).await;
        collect(&Reaper::new());
        assert_eq!(of_tokio.wait().await.unwrap().code(), Some(5));
        assert_eq!(of_std.wait().unwrap().code(), Some(6));
    });
}

#[test]
fn g13_a_plain_child_whose_thread_has_ended_is_its_owners_for_minutes() {
    alone(async {
        let spawn = || std::process::Command::new("/bin/sh").args(["-c", "exit 6"]).spawn().unwrap();
        let mut child = std::thread::spawn(spawn).join().unwrap();
        let pid = child.id();
        until(|| is_dead(pid)).await;
        let (mut dead, now) = (HashMap::new(), Instant::now());
        let reaper = Reaper::new();
        for seconds in [0, 20, 300] {
            reaper.collect(&mut dead, now + Duration::from_secs(seconds));
        }
        assert!(!dead.is_empty(), "it looks like an orphan");
        assert_eq!(child.wait().unwrap().code(), Some(6));
    });
}

#[test]
fn g13_an_orphan_of_another_group_is_collected_soon() {
    alone(async {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
        let orphan = dead_orphan(sh(LEAVES_ONE_BEHIND).process_group(0)).await;
        let (mut dead, now) = (HashMap::new(), Instant::now());
        let reaper = Reaper::new();
        reaper.collect(&mut dead, now);
        assert!(is_dead(orphan));
        reaper.collect(&mut dead, now + Duration::from_secs(20));
        assert!(!is_dead(orphan));
    });
}

#[test]
fn g13_an_orphan_that_nobody_asks_for_is_collected() {
    alone(async {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
        let orphan = dead_orphan(&mut sh(LEAVES_ONE_BEHIND)).await;
        collect(&Reaper::new());
        assert!(!is_dead(orphan));
    });
}

#[test]
fn one_that_dies_long_before_its_parent_leaves_it_can_be_adopted() {
    alone(async {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
        let reaper = Reaper::new();
        // The parent does not collect the process, because it has replaced itself with `sleep`, and
        // ends after three seconds.
        let mut parent = sh("exec 3<&0; (read -r line <&3; exit 9) & echo $!; exec sleep 3");
        let mut parent = parent.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let mut output = tokio::io::BufReader::new(parent.stdout.take().unwrap());
        tokio::io::AsyncBufReadExt::read_line(&mut output, &mut said).await.unwrap();
        let mut process = reaper.adopt(Pid::from_raw(said.trim().parse().unwrap()).unwrap()).unwrap();
        let name = format!("/proc/{}/comm", parent.id().unwrap());
        until(|| fs::read_to_string(&name).unwrap() == "sleep\n").await;
        drop(parent.stdin.take());
        let (exit, _) = tokio::join!(process.wait(), parent.wait());
        assert_eq!(exit.status, 9);
    });
}
