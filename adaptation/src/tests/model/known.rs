//! Checks that the events which a plugin receives about an object make sense after what the plugin
//! knows.

use super::checker::{OperationState, Session};

/// The state of a pod or container, as far as a plugin knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Nothing,
    Alive,
    Stopped,
    Removed,
}

/// Returns an error text if an event about this object makes no sense to the plugin.
///
/// Each run has at most one Stop, and a Stop needs a beginning since the last Stop. Nothing is
/// delivered about objects that were not shown, except the Remove or the restart of a stopped
/// object.
pub(super) fn check_life(id: &str, operations: &[OperationState], session: &Session) -> Option<String> {
    let mut known = match session.shown.get(id).copied() {
        None => Known::Nothing,
        Some("stopped") => Known::Stopped,
        Some(_) => Known::Alive,
    };
    // For pods that existed before, plugins only receive the end.
    if !matches!(operations[0].events[0], "RunPodSandbox" | "CreateContainer") {
        return None;
    }
    let told: Vec<_> = session.told.iter().filter(|(_, about)| about == id).map(|(event, _)| *event).collect();
    for event in &told {
        let Some(next) = known.after(event, operations) else {
            let plugin = &session.plugin;
            return Some(format!(
                "{plugin} was told {told:?} of {id}, but {event} makes no sense while it is {known:?}"
            ));
        };
        known = next;
    }
    None
}

impl Known {
    /// Returns what the plugin knows after an event. `None` if the event makes no sense.
    fn after(self, event: &str, operations: &[OperationState]) -> Option<Self> {
        let has_stopped =
            || operations.iter().any(|operation| !operation.failed && operation.events[0].starts_with("Stop"));
        match (event, self) {
            ("RunPodSandbox" | "CreateContainer", Self::Nothing) => Some(Self::Alive),
            ("StartContainer", Self::Alive | Self::Stopped) => Some(Self::Alive),
            // A stopped object was not in the snapshot.
            ("StartContainer", Self::Nothing) => has_stopped().then_some(Self::Alive),
            ("StopPodSandbox" | "StopContainer", Self::Alive) => Some(Self::Stopped),
            ("RemovePodSandbox" | "RemoveContainer", Self::Stopped) => Some(Self::Removed),
            ("RemovePodSandbox" | "RemoveContainer", Self::Nothing) => has_stopped().then_some(Self::Removed),
            // The snapshot may show a stopped pod like any other.
            ("RemovePodSandbox", Self::Alive) => has_stopped().then_some(Self::Removed),
            ("RemoveContainer", Self::Alive) => is_given_up(operations).then_some(Self::Removed),
            ("RunPodSandbox" | "CreateContainer" | "StopPodSandbox" | "StopContainer", _) => None,
            (_, Self::Alive) => Some(self),
            (_, Self::Nothing | Self::Stopped | Self::Removed) => None,
        }
    }
}

/// Returns whether the last start of a container failed, and the runtime then only removed the
/// container.
fn is_given_up(operations: &[OperationState]) -> bool {
    let mut lasts = operations.iter().rev().filter(|operation| operation.events[0] != "RemoveContainer");
    lasts.next().is_some_and(|last| last.failed && last.events[0] == "StartContainer")
}

#[test]
fn what_makes_no_sense_to_a_plugin_is_noticed() {
    let operation = |event: &'static str, failed| OperationState { events: vec![event], failed, ended: 0, words: None };
    let operations =
        [operation("CreateContainer", false), operation("StartContainer", false), operation("StopContainer", false)];
    let makes_sense = |operations: &[OperationState], shown: Option<&'static str>, told: &[&'static str]| {
        let session = Session {
            plugin: "10-a".to_owned(),
            begun: 0,
            asked: 0,
            shown: shown.map(|state| ("c".to_owned(), state)).into_iter().collect(),
            told: told.iter().map(|event| (*event, "c".to_owned())).collect(),
            whole: true,
        };
        check_life("c", operations, &session).is_none()
    };
    let (create, start, stop, remove) = ("CreateContainer", "StartContainer", "StopContainer", "RemoveContainer");
    assert!(makes_sense(&operations, None, &[create, start, "PostStartContainer", stop, start, stop, remove]));
    assert!(makes_sense(&operations, Some("running"), &["UpdateContainer", stop, remove]));
    assert!(makes_sense(&operations, None, &[remove]), "it had stopped");
    assert!(makes_sense(&operations, None, &[start, stop, remove]), "a restart");
    assert!(!makes_sense(&operations, None, &[stop]), "not shown");
    assert!(!makes_sense(&operations, None, &["UpdateContainer"]), "not shown");
    assert!(!makes_sense(&operations, Some("running"), &[stop, stop]), "a second Stop");
    assert!(!makes_sense(&operations, Some("stopped"), &[stop]), "a second Stop");
    assert!(!makes_sense(&operations, Some("running"), &[stop, "PostStartContainer"]), "after the Stop");
    assert!(!makes_sense(&operations, Some("created"), &[create]), "it was there");
    assert!(!makes_sense(&operations, Some("running"), &[remove]), "it runs");
    let given_up = [operations.as_slice(), &[operation("StartContainer", true)]].concat();
    assert!(makes_sense(&given_up, None, &[start, remove]));
    assert!(!makes_sense(&operations[..1], None, &[start]), "it had not stopped");
}
