//! Operations that stay open for too long and are then dropped without a commit.

use std::time::Duration;

use nri_proto::{Container, Pod};
use tokio::time::sleep;

use super::fake::{Manner, SECOND, at_once, container, pod};
use super::setting::{Setting, setting};
use crate::Notice;

const POLICY: &str = "operation_timeout = '20s'\nplugin_defaults.strikes = 100";
const LONG: Duration = Duration::from_secs(40);
const UNDONE: [&str; 3] = ["10-a CreateContainer c", "10-a StopContainer c", "10-a RemoveContainer c"];

/// Returns the requests about containers.
fn told(setting: &Setting) -> Vec<String> {
    setting.diary.lines().into_iter().filter(|line| line.contains("Container ")).collect()
}

#[tokio::test(start_paused = true)]
async fn what_a_silent_plugin_hears_of_an_overdue_operation_is_undone_for_it() {
    let setting = setting(POLICY);
    let plugin = setting.plugin("10-a");
    setting.admit("10-a", &plugin).await.unwrap().unwrap();
    let operation = setting.nri.begin(pod("p"));
    operation.notify(Notice::PostUpdatePod).await.unwrap();
    sleep(LONG).await;
    plugin.behave(Manner::After(SECOND * 5));
    setting.tell("q", Notice::StopPod).await;
    plugin.behave(at_once());
    operation.create_container(container("c")).await.unwrap();
    assert!(told(&setting).is_empty(), "it is silent");
    drop(operation);
    sleep(LONG).await;
    assert_eq!(told(&setting), UNDONE);
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_did_not_take_at_first_is_undone_for_it_once() {
    let setting = setting(POLICY);
    let plugin = setting.plugin("10-a");
    setting.admit("10-a", &plugin).await.unwrap().unwrap();
    let operation = setting.nri.begin(pod("p"));
    plugin.behave(Manner::DoesNotTake);
    operation.create_container(container("c")).await.unwrap();
    plugin.behave(at_once());
    sleep(LONG).await;
    drop(operation);
    sleep(LONG).await;
    // The plugin did not take the first request.
    assert_eq!(told(&setting)[1..], UNDONE);
}

#[tokio::test(start_paused = true)]
async fn who_joined_before_or_after_the_time_was_over_hears_no_end_without_a_beginning() {
    for is_late in [false, true] {
        let setting = setting(POLICY);
        let operation = setting.nri.begin(pod("p"));
        operation.create_container(container("c")).await.unwrap();
        if is_late {
            sleep(LONG).await;
        }
        setting.admit("10-a", &setting.plugin("10-a")).await.unwrap().unwrap();
        sleep(LONG).await;
        operation.create_container(container("d")).await.unwrap();
        operation.stop_container(container("d")).await.unwrap();
        operation.stop_container(container("c")).await.unwrap();
        drop(operation);
        sleep(LONG).await;
        assert_eq!(told(&setting), UNDONE);
    }
}

#[tokio::test(start_paused = true)]
async fn an_overdue_run_that_fails_is_undone_before_the_pod_is_run_again() {
    let setting = setting(&format!("{POLICY}\nplugin_defaults.sync_timeout = '5m'"));
    let (plugin, joining) = setting.joining("10-a", LONG * 2).await;
    let operation = setting.nri.begin(pod("p"));
    operation.notify(Notice::RunPod).await.unwrap();
    sleep(LONG).await;
    drop(operation);
    // The rollback waits for the pod's turn in a task. The next operation begins at once.
    let again = setting.nri.begin(pod("p"));
    again.notify(Notice::RunPod).await.unwrap();
    again.commit();
    joining.await.unwrap().unwrap();
    sleep(LONG).await;
    let told = ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "RunPodSandbox"];
    assert_eq!(setting.diary.lines(), told.map(|event| format!("10-a {event} p")));
    assert_eq!(plugin.most_at_a_time(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_made_in_a_pod_whose_run_never_ends_is_shown_to_who_joins() {
    for (is_late, namespaces) in [(false, ""), (true, ""), (false, "\nplugin_defaults.namespaces = ['n*']")] {
        let setting = setting(&format!("{POLICY}{namespaces}"));
        let in_n = Pod { namespace: "n".to_owned(), ..pod("p") };
        let forgotten = setting.nri.begin(in_n.clone());
        forgotten.notify(Notice::RunPod).await.unwrap();
        setting.shelf.store.lock().unwrap().pods.push(in_n.clone());
        let made = Container { pod_id: "p".to_owned(), ..container("c") };
        let operation = setting.nri.begin(in_n.clone());
        operation.create_container(made.clone()).await.unwrap();
        setting.shelf.store.lock().unwrap().containers.push(made.clone());
        operation.commit();
        if is_late {
            sleep(LONG).await;
        }
        let plugin = setting.plugin("10-a");
        setting.admit("10-a", &plugin).await.unwrap().unwrap();
        assert_eq!(plugin.shown()[0].containers, [made]);
        sleep(LONG).await;
        assert_eq!(setting.diary.lines(), ["10-a RunPodSandbox p"]);
    }
}
