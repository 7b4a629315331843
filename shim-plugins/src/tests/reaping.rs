use std::time::Duration;

use tokio::process::Command;

use crate::Reaper;

fn sh(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    command
}

#[tokio::test]
async fn g13_no_exit_is_lost_among_hundreds_of_children_of_several_owners() {
    let reaper = Reaper::new();
    let collecting = reaper.collect_orphans();
    let waiting = async {
        let mut ours = Vec::new();
        let mut tokios = Vec::new();
        for status in 0..150_u32 {
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
}

#[tokio::test]
async fn a_signal_that_ends_a_process_is_told_as_containerd_does() {
    let reaper = Reaper::new();
    let mut process = reaper.spawn(&mut sh("sleep 60")).unwrap();
    process.kill(rustix::process::Signal::KILL).unwrap();
    assert_eq!(process.wait().await.status, 137);
    // A second one, who comes late, hears it too.
    assert_eq!(process.clone().wait().await.status, 137);
    assert!(process.kill(rustix::process::Signal::KILL).is_err(), "it is gone, and so is its number");
}

#[tokio::test]
#[expect(clippy::zombie_processes, reason = "the reaper waits for it")]
async fn a_child_that_another_library_started_can_be_adopted() {
    let reaper = Reaper::new();
    let child = std::process::Command::new("/bin/sh").args(["-c", "exit 9"]).spawn().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    let mut process = reaper.adopt(pid).unwrap();
    let exit = tokio::time::timeout(Duration::from_secs(10), process.wait()).await.unwrap();
    assert_eq!(exit.status, 9);
}
