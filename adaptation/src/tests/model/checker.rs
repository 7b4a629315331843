//! Compares what plugins saw with what happened. A pure function of both.

use std::collections::BTreeMap;

use super::known::check_life;

/// The requests of one operation about one pod or container.
#[derive(Clone, Debug)]
pub(super) struct OperationState {
    pub(super) events: Vec<&'static str>,
    pub(super) failed: bool,
    /// The time at which the operation had ended.
    pub(super) ended: u64,
    /// The state of the container in the runtime's request, if it differed from the actual state. A
    /// snapshot taken meanwhile shows the state in the request.
    pub(super) words: Option<&'static str>,
}

/// The snapshot and the events of one plugin, from its join until it disconnects.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) plugin: String,
    /// When the plugin was admitted.
    pub(super) begun: u64,
    /// When the runtime was last asked for a snapshot.
    pub(super) asked: u64,
    /// The state of each pod and container in the snapshot.
    pub(super) shown: BTreeMap<String, &'static str>,
    /// The requests that the plugin received, each with the id of its object.
    pub(super) told: Vec<(&'static str, String)>,
    /// Whether the plugin stayed connected until the end and has received everything.
    pub(super) whole: bool,
}

/// All operations about each pod and container, in order.
pub(super) type History = BTreeMap<String, Vec<OperationState>>;

/// Returns an error text if the plugin saw something else than what happened.
pub(super) fn check(history: &History, session: &Session) -> Option<String> {
    if let Some((event, id)) = session.told.iter().find(|(_, id)| !history.contains_key(id)) {
        return Some(format!("{} was told {event} of {id}, which never was", session.plugin));
    }
    if let Some(id) = session.shown.keys().find(|id| !history.contains_key(*id)) {
        return Some(format!("{} was shown {id}, which never was", session.plugin));
    }
    history
        .iter()
        .find_map(|(id, operations)| check_one(id, operations, session).or_else(|| check_life(id, operations, session)))
}

fn check_one(id: &str, operations: &[OperationState], session: &Session) -> Option<String> {
    let told: Vec<_> = session.told.iter().filter(|(_, about)| about == id).map(|(event, _)| *event).collect();
    let shown = session.shown.get(id).copied();
    let is_possible = |place: &usize| {
        let before = operations[..*place].iter().all(|operation| operation.ended <= session.asked);
        let after = operations[*place..].iter().all(|operation| operation.ended > session.begun);
        before && after && is_shown(operations, *place, shown) && is_told(&operations[*place..], &told, session.whole)
    };
    if (0..=operations.len()).any(|place| is_possible(&place)) {
        return None;
    }
    let Session { plugin, begun, asked, whole, .. } = session;
    Some(format!(
        "{plugin} (whole: {whole}, since {begun} to {asked}) was shown {id} as {shown:?} and told {told:?}, but what happened is {operations:?}"
    ))
}

/// Returns whether a snapshot taken between the operations before `place` and the next one may show
/// an object in this state.
fn is_shown(operations: &[OperationState], place: usize, shown: Option<&str>) -> bool {
    if operations.get(place).is_some_and(|next| next.words.is_some() && next.words == shown) {
        return true;
    }
    // An update does not change the state.
    let is_state = |operation: &&OperationState| !operation.failed && !operation.events[0].starts_with("Update");
    match operations[..place].iter().rev().find(is_state).map(|last| last.events[0]) {
        Some("RunPodSandbox") => shown == Some("pod"),
        // A stopped object may be missing.
        Some("StopPodSandbox") => shown.is_none_or(|state| state == "pod"),
        Some("CreateContainer") => shown == Some("created"),
        Some("StartContainer") => shown == Some("running"),
        Some("StopContainer") => shown.is_none_or(|state| state == "stopped"),
        _ => shown.is_none(),
    }
}

/// Returns whether the operations match the requests that the plugin received. If the session is
/// not `whole`, a prefix is enough.
fn is_told(operations: &[OperationState], told: &[&str], whole: bool) -> bool {
    let Some((operation, rest)) = operations.split_first() else { return told.is_empty() };
    let is_prefix = |events: &[&str]| {
        if told.len() >= events.len() {
            told.starts_with(events) && is_told(rest, &told[events.len()..], whole)
        } else {
            !whole && events.starts_with(told)
        }
    };
    if !operation.failed {
        return is_prefix(&operation.events);
    }
    let undone: &[&str] = match operation.events[0] {
        "RunPodSandbox" => &["StopPodSandbox", "RemovePodSandbox"],
        "CreateContainer" => &["StopContainer", "RemoveContainer"],
        _ => &[],
    };
    // The plugin saw nothing of a failed operation, or some of its requests and the rollback.
    let seen = |n: usize| [&operation.events[..n], undone].concat();
    is_told(rest, told, whole) || (1..=operation.events.len()).any(|n| is_prefix(&seen(n)))
}

#[test]
fn the_checker_tells_right_from_wrong() {
    let operation =
        |events: &[&'static str], failed, ended| OperationState { events: events.to_vec(), failed, ended, words: None };
    let life = vec![
        operation(&["CreateContainer", "PostCreateContainer"], false, 10),
        operation(&["StartContainer"], true, 20),
        operation(&["StopContainer"], false, 30),
        operation(&["RemoveContainer"], false, 40),
    ];
    let tell = |life: &[OperationState], shown: Option<&'static str>, asked: u64, told: &[&'static str]| {
        let history = History::from([("c".to_owned(), life.to_vec())]);
        let session = Session {
            plugin: "10-a".to_owned(),
            begun: asked,
            asked,
            shown: shown.map(|state| ("c".to_owned(), state)).into_iter().collect(),
            told: told.iter().map(|event| (*event, "c".to_owned())).collect(),
            whole: true,
        };
        check(&history, &session).is_none()
    };
    assert!(tell(&life, Some("created"), 15, &["StopContainer", "RemoveContainer"]));
    assert!(tell(&life, Some("created"), 15, &["StartContainer", "StopContainer", "RemoveContainer"]));
    assert!(tell(&life, None, 35, &["RemoveContainer"]));
    assert!(tell(&life, None, 45, &[]));
    assert!(!tell(&life, Some("created"), 15, &["RemoveContainer", "StopContainer"]), "out of order");
    assert!(!tell(&life, Some("created"), 15, &["StopContainer", "StopContainer", "RemoveContainer"]), "twice");
    assert!(!tell(&life, Some("created"), 15, &["StopContainer"]), "lost");
    assert!(!tell(&life, None, 15, &["StopContainer", "RemoveContainer"]), "not shown");
    assert!(!tell(&life, None, 25, &["RemoveContainer"]), "neither shown nor told");
    let failed = [operation(&["CreateContainer"], true, 10)];
    assert!(tell(&failed, None, 5, &[]));
    assert!(tell(&failed, None, 5, &["CreateContainer", "StopContainer", "RemoveContainer"]));
    assert!(!tell(&failed, None, 5, &["CreateContainer"]), "not undone");
    assert!(!tell(&failed, None, 5, &["StopContainer", "RemoveContainer"]), "undone for one who had not seen it");
}

#[test]
fn the_checker_knows_of_restarts_and_of_words_that_lag_behind() {
    let operation =
        |event: &'static str, failed, ended, words| OperationState { events: vec![event], failed, ended, words };
    let life = vec![
        operation("CreateContainer", false, 10, None),
        operation("StartContainer", false, 20, None),
        operation("UpdateContainer", false, 30, Some("created")),
        operation("StopContainer", false, 40, None),
        operation("StartContainer", true, 50, None),
        operation("StartContainer", false, 60, None),
        operation("StopContainer", false, 70, None),
    ];
    let tell = |shown: Option<&'static str>, asked: u64, told: &[&'static str]| {
        let history = History::from([("c".to_owned(), life.clone())]);
        let session = Session {
            plugin: "10-a".to_owned(),
            begun: asked,
            asked,
            shown: shown.map(|state| ("c".to_owned(), state)).into_iter().collect(),
            told: told.iter().map(|event| (*event, "c".to_owned())).collect(),
            whole: true,
        };
        check(&history, &session).is_none()
    };
    let (start, stop, update) = ("StartContainer", "StopContainer", "UpdateContainer");
    assert!(tell(Some("running"), 25, &[update, stop, start, start, stop]));
    assert!(tell(Some("created"), 25, &[update, stop, start, stop]), "as the words say");
    assert!(!tell(Some("created"), 35, &[stop, start, stop]), "what the words said is over");
    assert!(tell(None, 45, &[start, stop]) && tell(None, 45, &[start, start, stop]));
    assert!(tell(Some("stopped"), 45, &[start, stop]));
    assert!(tell(Some("running"), 65, &[stop]));
    assert!(!tell(None, 65, &[stop]), "a Stop of what was not shown");
    assert!(!tell(Some("running"), 25, &[update, stop, stop]), "a run is lost");
}
