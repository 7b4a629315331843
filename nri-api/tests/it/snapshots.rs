//! The snapshot of a plugin that joins during a request whose state lags behind the state that
//! plugins know.

use nri_api::{Container, ContainerState, Event, State};
use tokio::time::{sleep, timeout};

use crate::rig::{Recorder, Rig, SECOND, container, exited, pod, requiring, running, settle};

/// Returns a rig with a container that plugins know in this state.
async fn rig_in(state: State) -> Rig {
    let rig = Rig::new().await;
    rig.run_pod("p").await;
    rig.create("p", "c").await;
    if state != State::Created {
        rig.start("p", "c").await;
    }
    if state == State::Stopped {
        rig.stop("p", "c").await;
    }
    rig.plugin.news();
    rig
}

/// Returns the containers of the last snapshot and their states, as `c:Running`.
fn shown(plugin: &Recorder) -> String {
    let snapshot = plugin.shown().pop().unwrap();
    let containers = snapshot.containers.iter().map(|container| format!("{}:{:?}", container.id, container.state));
    containers.collect::<Vec<_>>().join(" ")
}

/// States in a request: the right one, an outdated one, or unknown.
const WORDS: [ContainerState; 5] = [
    ContainerState::Unknown,
    ContainerState::Created,
    ContainerState::Running,
    ContainerState::Paused,
    ContainerState::Stopped,
];

fn in_state(state: ContainerState) -> Container {
    Container { state, ..container("p", "c") }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_joins_during_an_update_is_shown_what_plugins_know_whatever_the_words_say() {
    let life = [(State::Created, "c:Created"), (State::Running, "c:Running"), (State::Stopped, "")];
    for (known, expected) in life {
        for words in WORDS {
            let rig = rig_in(known).await;
            rig.domain.put(in_state(words));
            let update = rig.handle.update_container(pod("p"), in_state(words), None).await.unwrap();
            let late = rig.join("20-late").await;
            let is_frozen = known == State::Running && words == ContainerState::Paused;
            assert_eq!(shown(&late), if is_frozen { "c:Paused" } else { expected }, "{known:?} {words:?}");
            let told = rig.plugin.container(Event::UpdateContainer).state;
            let right = match known {
                State::Created => ContainerState::Created,
                State::Running if is_frozen => ContainerState::Paused,
                State::Running => ContainerState::Running,
                State::Stopped => ContainerState::Stopped,
            };
            assert_eq!(told, right, "{known:?} {words:?}");
            update.updated(in_state(words)).await.unwrap();
            assert_eq!(late.container(Event::PostUpdateContainer).state, right, "{known:?} {words:?}");
            late.news();
            rig.remove("p", "c").await;
            let end: &[&str] = match known {
                State::Stopped => &["RemoveContainer c"],
                State::Created | State::Running => &["StopContainer c", "RemoveContainer c"],
            };
            assert_eq!(late.news(), end, "{known:?} {words:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_words_of_a_post_event_say_what_plugins_know() {
    for words in WORDS {
        let rig = Rig::new().await;
        rig.run_pod("p").await;
        let creation = rig.handle.create_container(pod("p"), container("p", "c")).await.unwrap();
        creation.created(in_state(words)).await.unwrap();
        assert_eq!(rig.plugin.container(Event::PostCreateContainer).state, ContainerState::Created, "{words:?}");
        let start = rig.handle.start_container(pod("p"), in_state(words)).await.unwrap();
        start.started(in_state(words)).await.unwrap();
        let is_frozen = words == ContainerState::Paused;
        let right = if is_frozen { ContainerState::Paused } else { ContainerState::Running };
        assert_eq!(rig.plugin.container(Event::PostStartContainer).state, right, "{words:?}");
        rig.handle.post_update_container(pod("p"), in_state(words)).await.unwrap();
        assert_eq!(rig.plugin.container(Event::PostUpdateContainer).state, right, "{words:?}");
        rig.stop("p", "c").await;
        rig.handle.post_update_container(pod("p"), in_state(words)).await.unwrap();
        assert_eq!(rig.plugin.container(Event::PostUpdateContainer).state, ContainerState::Stopped, "{words:?}");
    }
}

/// A runtime need not report when a container was started.
#[tokio::test(start_paused = true)]
async fn a_container_that_stops_while_a_plugin_joins_is_shown_as_it_was_before() {
    for (known, expected) in [(State::Created, "c:Created"), (State::Running, "c:Running")] {
        for says_exit in [true, false] {
            let rig = rig_in(known).await;
            rig.plugin.take(SECOND);
            let ended = Container { started_at: 0, ..exited("p", "c", 3) };
            rig.domain.put(ended.clone());
            let handle = rig.handle.clone();
            let stopping = tokio::spawn(async move {
                match says_exit {
                    true => handle.container_exited(pod("p"), ended),
                    false => handle.stop_container(pod("p"), ended).await.unwrap(),
                }
            });
            sleep(SECOND / 2).await;
            let late = rig.join("20-late").await;
            assert_eq!(shown(&late), expected);
            stopping.await.unwrap();
            sleep(SECOND * 3).await;
            assert_eq!(late.news(), ["StopContainer c"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_joins_during_a_restart_hears_of_it_only_if_it_succeeds() {
    for succeeds in [true, false] {
        let rig = rig_in(State::Stopped).await;
        let start = rig.handle.start_container(pod("p"), running("p", "c")).await.unwrap();
        rig.domain.put(running("p", "c"));
        let late = rig.join("20-late").await;
        assert_eq!(shown(&late), "", "plugins know it as stopped");
        if succeeds {
            start.started(running("p", "c")).await.unwrap();
        } else {
            drop(start);
        }
        settle().await;
        rig.remove("p", "c").await;
        let expected: &[&str] = match succeeds {
            true => &["StartContainer c", "PostStartContainer c", "StopContainer c", "RemoveContainer c"],
            false => &["RemoveContainer c"],
        };
        assert_eq!(late.news(), expected);
    }
}

/// An update may make a container known, for example one that the runtime has found late and whose
/// state it does not know.
#[tokio::test(start_paused = true)]
async fn what_an_update_makes_known_is_shown_as_its_words_say() {
    for words in WORDS {
        let rig = Rig::new().await;
        rig.domain.put_pod(pod("p"));
        rig.domain.put(in_state(words));
        let update = rig.handle.update_container(pod("p"), in_state(words), None).await.unwrap();
        let late = rig.join("20-late").await;
        let is_over = matches!(words, ContainerState::Unknown | ContainerState::Stopped);
        assert_eq!(shown(&late), if is_over { String::new() } else { format!("c:{words:?}") });
        let pods = late.shown()[0].pods.len();
        assert_eq!(pods, usize::from(!is_over), "{words:?}");
        update.commit();
        settle().await;
        late.news();
        rig.handle.remove_pod(pod("p")).await.unwrap();
        let expected: &[&str] = match is_over {
            true => &["RemoveContainer c", "RemovePodSandbox p"],
            false => &["StopContainer c", "StopPodSandbox p", "RemoveContainer c", "RemovePodSandbox p"],
        };
        assert_eq!(late.news(), expected, "{words:?}");
    }
}

/// The start fails in four ways: the runtime drops the `Start`, a plugin refuses, a required plugin
/// is absent, or the caller leaves.
#[tokio::test(start_paused = true)]
async fn after_a_restart_that_fails_a_plugin_that_joined_meanwhile_hears_of_no_second_stop() {
    for how in 0..4 {
        let rig = rig_in(State::Stopped).await;
        let refuses = rig.join("30-refuses").await;
        rig.plugin.take(SECOND);
        match how {
            1 => refuses.refuse(Event::StartContainer),
            2 => _ = rig.nri.reload(&requiring("40-absent")),
            _ => {}
        }
        let handle = rig.handle.clone();
        let starting = tokio::spawn(async move {
            let start = timeout(SECOND / 2 * 5, handle.start_container(pod("p"), container("p", "c"))).await;
            sleep(SECOND).await;
            drop(start);
        });
        sleep(SECOND / 2).await;
        let late = rig.join("20-late").await;
        if how == 3 {
            starting.abort();
        }
        _ = starting.await;
        sleep(SECOND * 10).await;
        rig.remove("p", "c").await;
        assert_eq!(shown(&late), "", "{how}");
        assert_eq!(late.news(), ["RemoveContainer c"], "{how}");
        let expected: &[&str] = match how {
            2 => &["RemoveContainer c"],
            _ => &["StartContainer c", "StopContainer c", "RemoveContainer c"],
        };
        assert_eq!(rig.plugin.news(), expected, "{how}");
    }
}
