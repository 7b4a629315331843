//! Programs that are added, replaced or removed while the runtime runs.

use std::fs;
use std::time::Duration;

use nri_adaptation::Notice;
use nri_proto::Pod;
use nri_proto::call::CallError;

use crate::node::{Node, is_there, until};
use crate::plugin;

#[tokio::test]
async fn programs_that_are_added_replaced_and_removed_are_plugins_accordingly() {
    let mut node = Node::new();
    node.launch().await;
    assert_eq!(node.plugins(), [""; 0]);

    node.put("10-a", plugin::script());
    let old = node.launched().await;
    node.until("10-a joined").await;

    // The new program is added first.
    node.put("10-a", plugin::script());
    let new = node.launched().await;
    assert_ne!(old, new);
    assert_eq!(
        node.until("10-a exited").await,
        ["10-a closed: another plugin of the same name took its place", "10-a joined", "10-a exited: exit status: 0",]
    );
    assert!(!is_there(old) && is_there(new));
    assert_eq!(node.plugins(), ["10-a"]);

    fs::remove_file(node.path("plugins/10-a")).unwrap();
    assert_eq!(
        node.until("10-a exited").await,
        ["10-a closed: its program was removed", "10-a exited: exit status: 0"]
    );
    assert!(!is_there(new));
    assert_eq!(node.plugins(), [""; 0]);
    node.stop().await;
}

#[tokio::test]
async fn an_old_program_stays_until_a_new_one_has_joined() {
    let mut node = Node::new();
    node.put("10-a", plugin::script());
    node.launch().await;
    let old = node.launched().await;
    // A program that fails replaces no plugin.
    node.put("10-a", "#!/bin/sh\nexit 1\n");
    let happened = node.until("10-a exited: exit status: 1").await;
    assert_eq!(happened, ["10-a joined", "10-a launched", "10-a exited: exit status: 1, again in 1s"]);
    assert!(is_there(old));
    assert_eq!(node.plugins(), ["10-a"]);
    // A program that joins does.
    node.put("10-a", plugin::script());
    node.until("10-a joined").await;
    until(|| !is_there(old)).await;
    assert_eq!(node.plugins(), ["10-a"]);
    node.stop().await;
}

#[tokio::test]
async fn a_plugin_that_is_being_replaced_or_removed_answers_what_it_was_asked() {
    let mut node = Node::new();
    node.put("10-a", plugin::script());
    node.launch().await;
    node.until("10-a joined").await;
    let slow = || async {
        let operation = node.nri.begin(Pod { id: "slow".to_owned(), ..Pod::default() });
        let answered = operation.notify(Notice::RunPod).await;
        // Without a plugin, requests return at once.
        tokio::task::yield_now().await;
        answered
    };
    // Makes requests during the whole replacement, one after the other.
    let replaced = async {
        node.put("10-a", plugin::script());
        tokio::time::sleep(Duration::from_secs(5)).await;
        fs::remove_file(node.path("plugins/10-a")).unwrap();
        until(|| node.plugins().is_empty()).await;
    };
    let mut replaced = Box::pin(replaced);
    loop {
        tokio::select! {
            () = &mut replaced => break,
            answered = slow() => answered.unwrap(),
        }
    }
    drop(replaced);
    let happened = node.happened();
    assert!(happened.iter().any(|line| line.starts_with("10-a closed: another plugin")), "{happened:?}");
    assert!(!happened.iter().any(|line| line.contains("silent") || line.contains("late")), "{happened:?}");
    node.stop().await;
}

#[tokio::test]
async fn a_plugin_whose_program_was_removed_is_asked_only_in_what_it_takes_part_in() {
    let mut node = Node::new();
    node.put("10-a", plugin::script());
    node.launch().await;
    let pid = node.launched().await;
    node.until("10-a joined").await;
    let pod = || Pod { id: "p".to_owned(), ..Pod::default() };
    let operation = node.nri.begin(pod());
    operation.notify(Notice::RunPod).await.unwrap();
    fs::remove_file(node.path("plugins/10-a")).unwrap();
    node.until("10-a closed: its program was removed").await;
    assert_eq!(node.plugins(), [""; 0]);
    assert!(is_there(pid), "it may still be asked");
    operation.notify(Notice::RunPod).await.unwrap();
    operation.commit();
    node.until("10-a exited: exit status: 0").await;
    node.stop().await;
}

#[tokio::test]
async fn a_launched_plugin_keeps_its_place_from_one_that_connects_under_its_name() {
    let mut node = Node::new();
    node.put("10-a", plugin::script());
    node.launch().await;
    let pid = node.launched().await;
    node.until("10-a joined").await;
    node.nri.listen().unwrap();
    for _ in 0..3 {
        let stream = tokio::net::UnixStream::connect(node.path("nri.sock")).await.unwrap();
        let connected = tokio::spawn(plugin::connect(stream, "10", "a"));
        let taken = "plugin 10-a is already present, launched by the runtime: set plugins.10-a.origin \
                     to say which of the two is admitted";
        assert_eq!(node.until("10-a").await, [format!("10-a refused: {taken}")]);
        match connected.await.unwrap() {
            Err(CallError::Refused { message, .. }) => assert_eq!(message, taken),
            other => panic!("it is not told: {other:?}"),
        }
    }
    assert!(is_there(pid));
    assert_eq!(node.plugins(), ["10-a"]);
    node.stop().await;
}
