use std::sync::Arc;

use nri_proto::{Container, ContainerState, Event, Pod};

use super::PriorStates;
use super::TouchedObjects;
use crate::api::request::Subject;
use crate::api::snapshot::Snapshot;
use crate::operation::{KnownState, KnownStates};

fn pod(id: &str) -> Pod {
    Pod { id: id.to_owned(), ..Pod::default() }
}

/// Returns a container in pod `p`. The name tells several versions of one container apart.
fn container(id: &str, name: &str) -> Container {
    Container { id: id.to_owned(), pod_id: "p".to_owned(), name: name.to_owned(), ..Container::default() }
}

/// Restores a snapshot of pods and containers after these requests, and compares the result, in the
/// form `p c/name`.
fn check(shown: (&[&str], &[(&str, &str)]), touched: &[(Event, &str, &str)], expected: &str) {
    let snapshot = Snapshot {
        pods: shown.0.iter().map(|id| pod(id)).collect(),
        containers: shown.1.iter().map(|(id, name)| container(id, name)).collect(),
    };
    let mut all = TouchedObjects::default();
    for (event, id, name) in touched {
        let subject = match name.is_empty() {
            true => Subject::Pod,
            false => Subject::Container(Arc::new(container(id, name))),
        };
        let about = if name.is_empty() { pod(id) } else { pod("p") };
        if let Some(before) = PriorStates::of(*event, &Arc::new(about), &subject, KnownStates::default()) {
            all.add(&before);
        }
    }
    let (Snapshot { pods, containers }, _) = all.put_back(snapshot);
    let pods = pods.into_iter().map(|pod| pod.id);
    let containers = containers.into_iter().map(|container| format!("{}/{}", container.id, container.name));
    assert_eq!(pods.chain(containers).collect::<Vec<_>>().join(" "), expected, "{touched:?}");
}

#[test]
fn what_nobody_touches_is_shown_as_it_is() {
    check((&["p"], &[("c", "now")]), &[], "p c/now");
    check((&["p"], &[("c", "now")]), &[(Event::PostStartContainer, "c", "then")], "p c/now");
}

#[test]
fn what_is_being_made_is_not_shown() {
    check((&["p"], &[("c", "now"), ("d", "now")]), &[(Event::CreateContainer, "c", "then")], "p d/now");
    check((&["q"], &[]), &[(Event::RunPodSandbox, "p", "")], "q");
}

/// A plugin would not be notified of the container otherwise: the operation that created it has
/// ended.
#[test]
fn what_was_made_in_a_pod_that_is_not_shown_is() {
    check((&["p", "q"], &[("c", "now")]), &[(Event::RunPodSandbox, "p", "")], "q c/now");
    let both = [(Event::RunPodSandbox, "p", ""), (Event::CreateContainer, "c", "then")];
    check((&["p", "q"], &[("c", "now"), ("d", "now")]), &both, "q d/now");
}

#[test]
fn what_changes_is_shown_as_it_was() {
    for event in [Event::StartContainer, Event::UpdateContainer] {
        check((&["p"], &[("c", "now")]), &[(event, "c", "then")], "p c/then");
    }
    check((&["p"], &[("c", "now")]), &[(Event::StopContainer, "c", "then")], "p c/now");
}

#[test]
fn what_has_ended_meanwhile_is_shown_as_it_was() {
    check((&["p"], &[]), &[(Event::StopContainer, "c", "then")], "p c/then");
    check((&[], &[]), &[(Event::StopPodSandbox, "p", ""), (Event::RemovePodSandbox, "p", "")], "p");
}

#[test]
fn how_it_was_is_what_the_first_request_says() {
    let life =
        [(Event::CreateContainer, "c", "1"), (Event::StartContainer, "c", "2"), (Event::StopContainer, "c", "3")];
    check((&["p"], &[("c", "now")]), &life, "p");
    check((&["p"], &[("c", "now")]), &life[1..], "p c/2");
}

#[test]
fn a_container_that_had_stopped_is_not_brought_back() {
    let stopped = Container { state: ContainerState::Stopped, ..container("c", "") };
    let before = PriorStates::of(
        Event::RemoveContainer,
        &Arc::new(pod("p")),
        &Subject::Container(Arc::new(stopped)),
        KnownStates::default(),
    );
    let mut touched = TouchedObjects::default();
    touched.add(&before.unwrap());
    assert_eq!(touched.put_back(Snapshot::default()).0, Snapshot::default());
}

#[test]
fn a_container_whose_stop_says_that_it_has_stopped_is_shown_as_it_was_before() {
    let stopped = Container {
        state: ContainerState::Stopped,
        started_at: 1,
        finished_at: 2,
        exit_code: 3,
        status_reason: "Error".to_owned(),
        ..container("c", "then")
    };
    let before = PriorStates::of(
        Event::StopContainer,
        &Arc::new(pod("p")),
        &Subject::Container(Arc::new(stopped)),
        KnownStates::default(),
    );
    let mut touched = TouchedObjects::default();
    touched.add(&before.unwrap());
    let running = Container { state: ContainerState::Running, started_at: 1, ..container("c", "then") };
    let snapshot = Snapshot { pods: Vec::new(), containers: vec![running] };
    assert_eq!(touched.put_back(Snapshot::default()).0, snapshot);
}

/// The StopContainer describes the earlier state less exactly than the snapshot.
#[test]
fn a_container_that_is_shown_as_before_its_stop_stays_so() {
    let stopped = Container { state: ContainerState::Stopped, ..container("c", "then") };
    let before = PriorStates::of(
        Event::StopContainer,
        &Arc::new(pod("p")),
        &Subject::Container(Arc::new(stopped.clone())),
        KnownStates::default(),
    );
    let put_back = |shown: &Container| {
        let mut touched = TouchedObjects::default();
        touched.add(before.as_ref().unwrap());
        touched.put_back(Snapshot { pods: Vec::new(), containers: vec![shown.clone()] }).0.containers
    };
    let running = Container { state: ContainerState::Running, ..container("c", "now") };
    assert_eq!(put_back(&running), [running]);
    let created = Container { state: ContainerState::Created, ..container("c", "then") };
    assert_eq!(put_back(&stopped), [created]);
}

#[test]
fn a_pod_that_is_removed_may_have_stopped_before_and_is_not_brought_back() {
    check((&[], &[]), &[(Event::RemovePodSandbox, "p", "")], "");
    check((&["p"], &[]), &[(Event::RemovePodSandbox, "p", "")], "p");
}

/// Checks the state in which a container is shown. The snapshot shows the container in the state
/// `shown`, and the open request says the state `said`.
fn check_known(
    shown: Option<ContainerState>,
    event: Event,
    said: ContainerState,
    known: KnownState,
    expected: Option<ContainerState>,
) {
    let in_state = |state| Container { state, exit_code: 3, ..container("c", "then") };
    let known_before = KnownStates { container: known, ..KnownStates::default() };
    let subject = Subject::Container(Arc::new(in_state(said)));
    let mut touched = TouchedObjects::default();
    touched.add(&PriorStates::of(event, &Arc::new(pod("p")), &subject, known_before).unwrap());
    let containers = shown.map(in_state).into_iter().collect();
    let restored = touched.put_back(Snapshot { pods: Vec::new(), containers }).0.containers;
    assert_eq!(
        restored.iter().map(|container| container.state).next(),
        expected,
        "{shown:?} {event:?} {said:?} {known:?}"
    );
    if let (Some(container), Some(state)) = (restored.first(), expected) {
        let is_over = said != state && shown != Some(state);
        assert!(!is_over || container.exit_code == 0, "it has not ended yet: {shown:?} {event:?} {said:?} {known:?}");
    }
}

#[test]
fn what_plugins_know_counts_before_what_words_say() {
    use ContainerState::{Created, Paused, Running, Stopped};
    let (update, start, stop) = (Event::UpdateContainer, Event::StartContainer, Event::StopContainer);
    check_known(Some(Running), update, Stopped, KnownState::AsShown, Some(Running));
    check_known(Some(Paused), update, Running, KnownState::AsShown, Some(Paused));
    check_known(None, update, Running, KnownState::AsShown, None);
    check_known(None, update, Running, KnownState::Created, Some(Created));
    check_known(Some(Running), start, Created, KnownState::Stopped, None);
    check_known(Some(Running), start, Created, KnownState::Created, Some(Created));
    check_known(Some(Running), start, Created, KnownState::Running, Some(Running));
    check_known(None, stop, Stopped, KnownState::Running, Some(Running));
    check_known(None, stop, Stopped, KnownState::Created, Some(Created));
    check_known(Some(Paused), stop, Stopped, KnownState::Running, Some(Paused));
    check_known(None, stop, Stopped, KnownState::AsSaid, Some(Created));
}

/// The update leaves the state to the snapshot, and the StopContainer after it sets the state.
#[test]
fn the_state_is_what_the_first_request_says_that_knows_it() {
    let stopped = Subject::Container(Arc::new(Container { state: ContainerState::Stopped, ..container("c", "then") }));
    let add = |touched: &mut TouchedObjects, event, container| {
        let known = KnownStates { container, ..KnownStates::default() };
        touched.add(&PriorStates::of(event, &Arc::new(pod("p")), &stopped, known).unwrap());
    };
    let mut touched = TouchedObjects::default();
    add(&mut touched, Event::UpdateContainer, KnownState::AsShown);
    add(&mut touched, Event::StopContainer, KnownState::Running);
    add(&mut touched, Event::RemoveContainer, KnownState::Stopped);
    let restored = touched.put_back(Snapshot::default()).0.containers;
    assert_eq!(restored.iter().map(|container| container.state).collect::<Vec<_>>(), [ContainerState::Running]);
}

#[test]
fn a_pod_that_starts_again_with_its_container_is_not_shown() {
    let known = KnownStates { pod: KnownState::Stopped, container: KnownState::Stopped };
    let subject = Subject::Container(Arc::new(container("c", "then")));
    let mut touched = TouchedObjects::default();
    touched.add(&PriorStates::of(Event::StartContainer, &Arc::new(pod("p")), &subject, known).unwrap());
    let shown = Snapshot { pods: vec![pod("p")], containers: vec![container("c", "now")] };
    assert_eq!(touched.put_back(shown).0, Snapshot::default());
}
