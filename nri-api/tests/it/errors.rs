//! How a runtime can tell from the error of an approval request what to do next.

use nri_api::testing::FakeBehavior;
use nri_api::{Config, Error, Event, State};
use tokio::time::{Instant, sleep};

use crate::rig::{Rig, SECOND, config, container, pod, requiring, running};

/// Returns the kinds of an error, separated by blanks. A test expects at most one.
fn kind(error: &Error) -> String {
    let kinds =
        [("refusal", error.is_refusal()), ("absent", error.is_plugin_absent()), ("deadline", error.is_deadline())];
    kinds.into_iter().filter(|(_, is_so)| *is_so).map(|(kind, _)| kind).collect::<Vec<_>>().join(" ")
}

/// Starts the container, and returns the kind of the error.
async fn start(rig: &Rig) -> String {
    kind(&rig.handle.start_container(pod("p"), container("p", "c")).await.err().expect("it fails"))
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_says_no_has_refused() {
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    for event in [Event::StartContainer, Event::UpdateContainer, Event::CreateContainer] {
        rig.plugin.refuse(event);
    }
    assert_eq!(start(&rig).await, "refusal");
    let update = rig.handle.update_container(pod("p"), running("p", "c"), None).await.err().unwrap();
    assert_eq!(kind(&update), "refusal");
    let create = rig.handle.create_container(pod("p"), container("p", "d")).await.err().unwrap();
    assert_eq!(kind(&create), "refusal");
    let taken = rig.handle.create_container(pod("p"), container("p", "c")).await.err().unwrap();
    assert_eq!(kind(&taken), "", "that is no plugin's doing");
}

#[tokio::test(start_paused = true)]
async fn a_required_plugin_that_is_silent_suspended_or_gone_counts_as_absent() {
    let policy = "[plugins.books]\nrequired = true\nkeep_connected = true\nrequest_timeout = \"1s\"";
    let policies = Config::from_toml(policy).unwrap().policies;
    let rig = Rig::with(Config { policies, ..config() }, nri_api::testing::FakeDomain::new()).await;
    rig.running("p", "c").await;
    rig.plugin.take(SECOND * 60);
    assert_eq!(start(&rig).await, "absent", "no answer in time");
    let before = Instant::now();
    assert_eq!(start(&rig).await, "absent", "it is silent");
    sleep(SECOND * 10).await;
    assert_eq!(start(&rig).await, "absent", "it is suspended");
    assert!(before.elapsed() < SECOND * 21, "{:?}", before.elapsed());
    rig.nri.reload(&requiring("never"));
    assert_eq!(start(&rig).await, "absent", "it has never come");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_of_the_callers_own_is_over_whatever_the_call_waits_for() {
    // The call waits for a plugin.
    let rig = Rig::new().await;
    rig.running("p", "c").await;
    rig.plugin.take(SECOND);
    let soon = || rig.handle.until(Instant::now() + SECOND / 4);
    let late = soon().start_container(pod("p"), container("p", "c")).await.err().unwrap();
    assert_eq!(kind(&late), "deadline");

    // The call waits for a request of another caller.
    let other = rig.handle.clone();
    let starting = tokio::spawn(async move { other.start_container(pod("p"), container("p", "c")).await });
    sleep(SECOND / 4).await;
    let late = soon().update_container(pod("p"), running("p", "c"), None).await.err().unwrap();
    assert_eq!(kind(&late), "deadline");
    starting.await.unwrap().unwrap().commit();

    // The call waits for a domain, which is asked about an end that was reported before the start.
    let rig = Rig::new().await;
    rig.run_pod("p").await;
    rig.create("p", "c").await;
    drop(rig.handle.start_container(pod("p"), container("p", "c")).await.unwrap());
    rig.domain.behave(FakeBehavior::Hangs);
    let before = Instant::now();
    let soon = rig.handle.until(before + SECOND);
    let late = soon.start_container(pod("p"), container("p", "c")).await.err().unwrap();
    assert_eq!((kind(&late), before.elapsed()), ("deadline".to_owned(), SECOND));
    sleep(SECOND * 100).await;
    assert_eq!(rig.handle.container_state("c"), Some(State::Stopped));
    assert_eq!(rig.plugin.heard().last().unwrap(), "StopContainer c", "the end of the first start goes on");
}

/// The call itself commits. A caller that drops the future only does not wait until plugins are
/// notified.
#[tokio::test(start_paused = true)]
async fn what_was_done_counts_as_done_when_that_is_said_and_not_when_it_is_awaited() {
    let rig = Rig::new().await;
    rig.run_pod("p").await;
    let creation = rig.handle.create_container(pod("p"), container("p", "c")).await.unwrap();
    let created = creation.created(container("p", "c"));
    assert_eq!(rig.handle.container_state("c"), Some(State::Created), "before it is polled");
    drop(created);
    let start = rig.handle.start_container(pod("p"), container("p", "c")).await.unwrap();
    drop(start.started(running("p", "c")));
    let update = rig.handle.update_container(pod("p"), running("p", "c"), None).await.unwrap();
    drop(update.updated(running("p", "c")));
    let of_pod = rig.handle.update_pod(pod("p"), None, None).await.unwrap();
    drop(of_pod.updated(pod("p")));
    sleep(SECOND * 5).await;
    assert_eq!(rig.handle.container_state("c"), Some(State::Running));
    let late = rig.join("20-late").await;
    let expected =
        ["RunPodSandbox p", "CreateContainer c", "StartContainer c", "UpdateContainer c", "UpdatePodSandbox p"];
    assert_eq!(rig.plugin.heard(), expected, "nothing is undone");
    sleep(SECOND * 1000).await;
    assert_eq!(late.heard(), [""; 0], "no operation was left open");
}
