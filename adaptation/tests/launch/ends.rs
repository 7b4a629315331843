//! How launched plugins end, and that nothing of them remains.

use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nri_proto::Pod;
use tokio::time::{Instant, timeout};

use crate::node::{Node, PATIENCE, is_there, until};
use crate::own_process::in_own_process;
use crate::plugin;

#[tokio::test]
async fn a38_u19_a_plugin_that_ends_before_it_registers_is_collected_and_started_again_after_a_pause() {
    for (ends, status) in
        [("exit 0", "exit status: 0"), ("exit 7", "exit status: 7"), ("kill -9 $$", "signal: 9 (SIGKILL)")]
    {
        let mut node = Node::new();
        node.put("10-a", node.script(&format!("echo >>\"$dir/runs\"; {ends}")));
        let begun = Instant::now();
        node.launch().await;
        assert!(begun.elapsed() < Duration::from_millis(900), "its end was not noticed, only that it was not there");
        let pid = node.launched().await;
        assert!(!is_there(pid), "{ends}: it was not collected");
        assert_eq!(node.until("10-a exited").await, [format!("10-a exited: {status}, again in 1s")]);
        assert_eq!(fs::read_to_string(node.path("runs")).unwrap().len(), 1);
        let again = node.launched().await;
        assert_ne!(again, pid);
        assert_eq!(node.until("10-a exited").await, [format!("10-a exited: {status}, again in 2s")]);
        assert!(!is_there(again));
        let counts = [&node.counts.n_launched, &node.counts.n_exited, &node.counts.n_again];
        assert_eq!(counts.map(|count| count.load(Ordering::Relaxed)), [2, 2, 2]);
        timeout(Duration::from_millis(500), node.stop()).await.expect("stopping waits for the pause");
        assert_eq!(fs::read_to_string(node.path("runs")).unwrap().len(), 2);
    }
}

#[tokio::test]
async fn a39_what_a_plugin_leaves_behind_ends_with_it_and_its_connection_is_closed() {
    let mut node = Node::new();
    // The child inherits the connection and the pipes.
    node.put("10-a", node.script("sleep 1000 &\necho $! >\"$dir/child\"\nexit 0"));
    node.launch().await;
    let happened = node.until("10-a exited").await;
    assert_eq!(happened, ["10-a launched", "10-a exited: exit status: 0, again in 1s"]);
    let child: u32 = fs::read_to_string(node.path("child")).unwrap().trim().parse().unwrap();
    // The process that inherits the child collects it.
    until(|| fs::read_to_string(format!("/proc/{child}/stat")).map_or(true, |stat| stat.contains(") Z "))).await;
    node.stop().await;
}

/// A39: a process that has left the process group cannot be found, but holds no resource of the
/// runtime.
#[tokio::test]
async fn a39_a_process_that_left_the_group_of_its_plugin_holds_up_nobody() {
    let mut node = Node::new();
    node.put("10-a", node.script("setsid sleep 5 &\nexit 0"));
    node.launch().await;
    node.until("10-a exited: exit status: 0").await;
    timeout(Duration::from_secs(2), node.stop()).await.expect("stopping waits for what has left");
}

#[tokio::test]
async fn a_plugin_that_was_killed_is_started_again_and_is_a_plugin_again() {
    let mut node = Node::new();
    node.put("10-a", plugin::script());
    node.launch().await;
    let pid = node.launched().await;
    node.until("10-a joined").await;
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid.cast_signed()).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    let mut happened = node.until("10-a joined").await;
    // The connection and the process end at the same time, in any order.
    happened.sort();
    assert_eq!(happened.len(), 4, "{happened:?}");
    assert!(happened[0].starts_with("10-a closed: "), "{happened:?}");
    assert_eq!(happened[1..], ["10-a exited: signal: 9 (SIGKILL), again in 1s", "10-a joined", "10-a launched"]);
    assert_eq!(node.plugins(), ["10-a"]);
    node.stop().await;
}

#[tokio::test]
async fn stopping_tells_a_plugin_to_go_and_lets_it_end_by_itself() {
    let mut node = Node::new();
    let script = plugin::script().replacen("exec ", &format!("exec >{}\nexec ", node.path("said").display()), 1);
    node.put("10-a", script);
    node.launch().await;
    let pid = node.launched().await;
    node.stop().await;
    assert!(!is_there(pid));
    let said = fs::read_to_string(node.path("said")).unwrap();
    assert!(said.contains("told to go\nit is over\n"), "{said}");
    assert_eq!(node.happened().last().unwrap(), "10-a exited: exit status: 0");
}

#[tokio::test]
async fn a_plugin_that_wants_to_stay_gets_sigterm_and_then_sigkill() {
    let mut node = Node::new();
    let script = node.script(
        "trap 'echo terminated >>\"$dir/said\"' TERM\n: >\"$dir/ready\"\nexec 3<&-\nwhile :; do sleep 0.01; done",
    );
    node.put("10-a", script);
    let launching = node.nri.launch();
    tokio::select! {
        _ = launching => {}
        () = until(|| node.path("ready").exists()) => {}
    }
    let pid = node.launched().await;
    let begun = Instant::now();
    node.stop().await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert!(!is_there(pid));
    assert_eq!(fs::read_to_string(node.path("said")).unwrap(), "terminated\n");
    assert_eq!(node.happened().last().unwrap(), "10-a exited: signal: 9 (SIGKILL)");
}

#[tokio::test]
async fn an_adaptation_that_is_dropped_ends_its_plugins_too() {
    let mut node = Node::new();
    node.put("10-a", plugin::script());
    node.launch().await;
    let pid = node.launched().await;
    drop(node);
    until(|| !is_there(pid)).await;
}

#[test]
fn twenty_plugins_that_are_killed_leave_no_process_and_no_descriptor() {
    let test = async {
        let n_files = || fs::read_dir("/proc/self/fd").unwrap().count();
        let mut node = Node::new();
        for index in 10..30 {
            node.put(&format!("{index}-a"), plugin::script());
        }
        node.launch().await;
        assert_eq!(node.plugins().len(), 20);
        let mut pids = Vec::new();
        while pids.len() < 20 {
            pids.push(node.launched().await);
        }
        let before = n_files();
        for pid in &pids {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        timeout(PATIENCE, async {
            while node.plugins().len() < 20 || pids.iter().any(|pid| is_there(*pid)) {
                let operation = node.nri.begin(Pod::default());
                let _ = operation.notify(nri_adaptation::Notice::RunPod).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
        .expect("they never come back");
        until(|| n_files() <= before).await;
        node.stop().await;
    };
    in_own_process(test, |test| tokio::runtime::Runtime::new().unwrap().block_on(test));
}
