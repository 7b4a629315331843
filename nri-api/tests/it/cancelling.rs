//! Callers that leave early: each future is polled n times, for each n, and then dropped.

use std::pin::pin;
use std::time::Duration;

use futures_util::poll;
use nri_api::testing::FakeDomain;
use nri_api::{Config, Error, State};
use tokio::time::{Instant, sleep, timeout};

use crate::rig::{Recorder, Rig, SECOND, config, container, exited, pod};

/// More polls than any of these requests needs: the plugin takes a second for each request, and
/// there are four polls per second.
const LOOKS: usize = 24;

/// Polls a future at most this many times, and drops it. Returns whether the future has completed.
async fn leave_after<T>(looks: usize, future: impl Future<Output = T>) -> bool {
    let mut future = pin!(future);
    for _ in 0..looks {
        if poll!(future.as_mut()).is_ready() {
            return true;
        }
        sleep(SECOND / 4).await;
    }
    false
}

/// A rig with a pod and two containers, whose plugin takes a second for each answer.
async fn slow() -> Rig {
    let rig = Rig::new().await;
    rig.running("p", "a").await;
    rig.create("p", "b").await;
    rig.plugin.news();
    rig.plugin.take(SECOND);
    rig
}

/// Waits until everything that has begun must have ended.
async fn later() {
    sleep(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_told_to_its_end_whenever_its_caller_leaves() {
    for looks in 0..LOOKS {
        let rig = slow().await;
        let was_done = leave_after(looks, rig.handle.stop_container(pod("p"), container("p", "a"))).await;
        later().await;
        let expected: &[&str] = if looks == 0 { &[] } else { &["StopContainer a"] };
        assert_eq!(rig.plugin.heard(), expected, "{looks}");
        assert_eq!(rig.handle.container_state("a") == Some(State::Stopped), looks > 0);
        assert!(was_done || looks < LOOKS - 1, "the last look sees the end");
    }
}

#[tokio::test(start_paused = true)]
async fn a_remove_is_told_to_its_end_whenever_its_caller_leaves() {
    for looks in 1..LOOKS {
        let rig = slow().await;
        leave_after(looks, rig.handle.remove_container(pod("p"), container("p", "a"))).await;
        later().await;
        assert_eq!(rig.plugin.heard(), ["StopContainer a", "RemoveContainer a"], "{looks}");
        assert_eq!(rig.handle.container_state("a"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_pod_is_told_to_its_end_whenever_its_caller_leaves() {
    for looks in 1..LOOKS {
        let rig = slow().await;
        leave_after(looks, Box::pin(rig.handle.stop_pod(pod("p")))).await;
        later().await;
        assert_eq!(rig.plugin.news(), ["StopContainer a", "StopContainer b", "StopPodSandbox p"], "{looks}");
        leave_after(looks, Box::pin(rig.handle.remove_pod(pod("p")))).await;
        later().await;
        assert_eq!(rig.plugin.news(), ["RemoveContainer a", "RemoveContainer b", "RemovePodSandbox p"], "{looks}");
        assert_eq!((rig.handle.pod_state("p"), rig.handle.container_state("b")), (None, None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_caller_leaves_is_undone_and_leaves_nothing_behind() {
    for looks in 0..LOOKS {
        let rig = slow().await;
        leave_after(looks, rig.handle.create_container(pod("p"), container("p", "c"))).await;
        assert_eq!(rig.handle.container_state("c"), None);
        later().await;
        let expected: &[&str] =
            if looks == 0 { &[] } else { &["CreateContainer c", "StopContainer c", "RemoveContainer c"] };
        assert_eq!(rig.plugin.news(), expected, "{looks}");
        rig.create("p", "c").await;
        assert_eq!(rig.handle.container_state("c"), Some(State::Created));
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_caller_leaves_is_undone_and_leaves_nothing_behind() {
    for looks in 1..LOOKS {
        let rig = slow().await;
        leave_after(looks, rig.handle.run_pod(pod("q"))).await;
        assert_eq!(rig.handle.pod_state("q"), None);
        later().await;
        assert_eq!(rig.plugin.news(), ["RunPodSandbox q", "StopPodSandbox q", "RemovePodSandbox q"], "{looks}");
        rig.run_pod("q").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_caller_leaves_ends_in_a_stop() {
    for looks in 1..LOOKS {
        let rig = slow().await;
        leave_after(looks, rig.handle.start_container(pod("p"), container("p", "b"))).await;
        later().await;
        assert_eq!(rig.plugin.news(), ["StartContainer b", "StopContainer b"], "{looks}");
        assert_eq!(rig.handle.container_state("b"), Some(State::Stopped));
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_done_stays_done_although_its_caller_leaves_while_plugins_are_told() {
    for looks in 1..LOOKS {
        let rig = slow().await;
        let creation = rig.handle.create_container(pod("p"), container("p", "c")).await.unwrap();
        leave_after(looks, creation.created(container("p", "c"))).await;
        later().await;
        assert_eq!(rig.plugin.news(), ["CreateContainer c", "PostCreateContainer c"], "{looks}");
        assert_eq!(rig.handle.container_state("c"), Some(State::Created));
        let start = rig.handle.start_container(pod("p"), container("p", "c")).await.unwrap();
        leave_after(looks, start.started(container("p", "c"))).await;
        later().await;
        assert_eq!(rig.plugin.news(), ["StartContainer c", "PostStartContainer c"], "{looks}");
        assert_eq!(rig.handle.container_state("c"), Some(State::Running));
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_whose_caller_has_left_is_waited_for_at_the_end() {
    let rig = slow().await;
    leave_after(1, Box::pin(rig.handle.remove_pod(pod("p")))).await;
    rig.nri.stop().await;
    assert_eq!(rig.plugin.heard().last().unwrap(), "RemovePodSandbox p");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_caller_that_does_not_go_on() {
    let rig = slow().await;
    let mut stopping = Box::pin(rig.handle.stop_container(pod("p"), container("p", "a")));
    assert!(poll!(&mut stopping).is_pending());
    rig.remove("p", "a").await;
    rig.handle.remove_pod(pod("p")).await.unwrap();
    assert_eq!(rig.plugin.heard()[..2], ["StopContainer a", "RemoveContainer a"]);
    assert_eq!(rig.plugin.heard().last().unwrap(), "RemovePodSandbox p");
}

/// The end of a container was reported and delivered, and its caller stops polling. Plugins that
/// join later are not shown the container.
#[tokio::test(start_paused = true)]
async fn a_caller_that_does_not_go_on_makes_no_ghost_for_plugins_that_join() {
    let rig = slow().await;
    let mut stopping = Box::pin(rig.handle.stop_container(pod("p"), container("p", "a")));
    assert!(poll!(&mut stopping).is_pending());
    rig.remove("p", "a").await;
    let late = rig.join("20-late").await;
    assert_eq!(late.shown()[0].containers.iter().map(|c| &*c.id).collect::<Vec<_>>(), ["b"]);
    let mut of_pod = Box::pin(rig.handle.stop_pod(pod("p")));
    for _ in 0..8 {
        assert!(poll!(&mut of_pod).is_pending());
        if rig.plugin.heard().last().unwrap() == "StopPodSandbox p" {
            break;
        }
        sleep(SECOND / 2).await;
    }
    let before = Instant::now();
    rig.handle.remove_pod(pod("p")).await.unwrap();
    assert!(
        before.elapsed() < SECOND * 4,
        "it took what plugins take, and nobody was waited for: {:?}",
        before.elapsed()
    );
    let later = rig.join("30-later").await;
    assert_eq!((later.shown()[0].pods.len(), later.shown()[0].containers.len()), (0, 0));
    later_than_all().await;
    drop((stopping, of_pod));
    later_than_all().await;
    assert_eq!(late.heard(), ["StopContainer b", "StopPodSandbox p", "RemoveContainer b", "RemovePodSandbox p"]);
    assert_eq!(later.heard(), [""; 0]);
}

/// Waits longer than any operation may be open: older operations are reported, and nothing waits
/// for them.
async fn later_than_all() {
    sleep(Duration::from_secs(1000)).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_whose_caller_does_not_go_on_is_over_when_the_container_is_started_again() {
    let rig = slow().await;
    let mut stopping = Box::pin(rig.handle.stop_container(pod("p"), container("p", "a")));
    assert!(poll!(&mut stopping).is_pending());
    rig.start("p", "a").await;
    let late = rig.join("20-late").await;
    later_than_all().await;
    drop(stopping);
    later().await;
    assert_eq!(late.heard(), [""; 0], "it was shown one that runs");
}

/// Polls a future once, and returns the pending future.
macro_rules! kept {
    ($future:expr) => {{
        let mut kept = Box::pin($future);
        assert!(poll!(&mut kept).is_pending());
        kept
    }};
}

#[tokio::test(start_paused = true)]
async fn a_create_that_its_caller_does_not_go_on_with_does_not_hold_up_the_end_of_its_pod() {
    let rig = slow().await;
    let creating = kept!(rig.handle.create_container(pod("p"), container("p", "c")));
    timeout(SECOND * 10, rig.handle.stop_pod(pod("p"))).await.expect("no caller is waited for").unwrap();
    let heard = rig.plugin.news();
    assert_eq!(heard.last().unwrap(), "StopPodSandbox p");
    let of_c: Vec<_> = heard.iter().filter(|line| line.ends_with(" c")).collect();
    assert_eq!(of_c, ["CreateContainer c", "StopContainer c", "RemoveContainer c"]);
    assert_eq!(rig.handle.container_state("c"), None);
    rig.run_pod("q").await;
    rig.create("q", "c").await;
    let created = creating.await.expect("plugins approved it").created(container("p", "c")).await;
    assert!(matches!(created, Err(Error::PodEnded { .. })), "its caller is told");
    assert_eq!(rig.handle.container_state("c"), Some(State::Created), "another one has the id now");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_begun_goes_on_without_its_caller_and_fails_when_it_is_dropped() {
    let rig = slow().await;
    let second = rig.join("20-second").await;
    second.take(SECOND);
    let creating = kept!(rig.handle.create_container(pod("p"), container("p", "c")));
    let running = kept!(rig.handle.run_pod(pod("q")));
    later().await;
    let told = |plugin: &Recorder| {
        let mut news = plugin.news();
        news.sort();
        news
    };
    assert_eq!(told(&rig.plugin), ["CreateContainer c", "RunPodSandbox q"]);
    assert_eq!(told(&second), ["CreateContainer c", "RunPodSandbox q"]);
    drop((creating, running));
    assert_eq!((rig.handle.container_state("c"), rig.handle.pod_state("q")), (None, None));
    later().await;
    let expected = ["RemoveContainer c", "RemovePodSandbox q", "StopContainer c", "StopPodSandbox q"];
    assert_eq!(told(&rig.plugin), expected);
    assert_eq!(told(&second), expected);
}

/// The request is dropped at any moment of its task, which runs on another thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_has_failed_when_its_future_is_dropped_whatever_its_task_does_meanwhile() {
    let rig = Rig::new().await;
    rig.run_pod("p").await;
    rig.plugin.take(Duration::from_millis(1));
    for wait in 0..150 {
        let creating = kept!(rig.handle.create_container(pod("p"), container("p", "c")));
        std::thread::sleep(Duration::from_micros(20 * wait));
        drop(creating);
        assert_eq!(rig.handle.container_state("c"), None, "{wait}");
    }
    rig.create("p", "c").await;
    assert_eq!(rig.handle.container_state("c"), Some(State::Created));
}

#[tokio::test(start_paused = true)]
async fn the_first_look_at_a_request_gives_it_its_place_among_the_others() {
    let rig = slow().await;
    let first = rig.handle.create_container(pod("p"), container("p", "first"));
    let second = kept!(rig.handle.create_container(pod("p"), container("p", "second")));
    let third = kept!(rig.handle.update_container(pod("p"), container("p", "b"), None));
    let first = kept!(first);
    later().await;
    let expected = ["CreateContainer second", "UpdateContainer b", "CreateContainer first"];
    assert_eq!(rig.plugin.news(), expected);
    drop((first, second, third));
}

#[tokio::test(start_paused = true)]
async fn a_start_or_an_update_that_its_caller_does_not_go_on_with_holds_up_no_end() {
    let rig = slow().await;
    let starting = kept!(rig.handle.start_container(pod("p"), container("p", "b")));
    rig.handle.container_exited(pod("p"), exited("p", "b", 3));
    timeout(SECOND * 30, rig.handle.stop_container(pod("p"), container("p", "a"))).await.unwrap().unwrap();
    later().await;
    let mut heard = rig.plugin.news();
    heard.sort();
    assert_eq!(heard, ["StartContainer b", "StopContainer a", "StopContainer b"]);
    drop(starting);

    let rig = slow().await;
    let of_container = kept!(rig.handle.update_container(pod("p"), container("p", "b"), None));
    let of_pod = kept!(rig.handle.update_pod(pod("p"), None, None));
    timeout(SECOND * 30, rig.remove("p", "a")).await.expect("it is of another container");
    timeout(SECOND * 30, rig.handle.remove_pod(pod("p"))).await.unwrap().unwrap();
    later().await;
    assert_eq!(rig.plugin.heard().last().unwrap(), "RemovePodSandbox p");
    drop((of_container, of_pod));
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_plugins_take_their_time_is_not_given_up() {
    let settings = Config::from_toml("[plugin_defaults]\nrequest_timeout = \"60s\"").unwrap();
    let rig = Rig::with(Config { policies: settings.policies, ..config() }, FakeDomain::new()).await;
    rig.run_pod("p").await;
    rig.plugin.take(SECOND * 20);
    let creating = {
        let handle = rig.handle.clone();
        tokio::spawn(async move { handle.create_container(pod("p"), container("p", "c")).await })
    };
    sleep(SECOND).await;
    rig.handle.stop_pod(pod("p")).await.unwrap();
    let created = creating.await.unwrap().expect("nobody took it away").created(container("p", "c")).await;
    assert!(matches!(created, Err(Error::PodEnded { .. })));
    let expected = ["RunPodSandbox p", "CreateContainer c", "StopContainer c", "RemoveContainer c", "StopPodSandbox p"];
    assert_eq!(rig.plugin.heard(), expected);
}
