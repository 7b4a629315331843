//! Checks the snapshot and the events of a plugin against what happened: a pure function.

use std::collections::BTreeMap;

/// One action of the runtime on a pod or container.
#[derive(Clone, Debug)]
pub(super) struct Act {
    /// The time at which the runtime began to report the action.
    pub(super) said: u64,
    /// The time at which all plugins had been notified; `u64::MAX` if unknown.
    pub(super) done: u64,
    /// The possible sequences of events for the action. A plugin must get one of them.
    pub(super) told: Vec<Vec<&'static str>>,
    /// The possible states of the object in a later snapshot. `None`: the object is not shown.
    pub(super) shown: Vec<Option<&'static str>>,
}

/// An event that a plugin got.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) at: u64,
    pub(super) event: &'static str,
    pub(super) pod: String,
    /// The id of the container and its state in the request, for events about containers.
    pub(super) container: Option<(String, &'static str)>,
}

/// The snapshot and the events of one plugin, from its join until the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    pub(super) plugin: String,
    /// The time at which the join began.
    pub(super) begun: u64,
    /// The time at which the plugin got its snapshot.
    pub(super) synced: u64,
    /// The snapshot: the state of each object, which is `pod`, `created` or `running`. Pods are
    /// `p/…`, containers `c/…`.
    pub(super) shown: BTreeMap<String, &'static str>,
    pub(super) told: Vec<Told>,
}

/// All actions on each pod and container, in order.
pub(super) type History = BTreeMap<String, Vec<Act>>;

/// Returns the errors in the session of a plugin.
pub(super) fn check(history: &History, session: &Session) -> Vec<String> {
    let against = history.iter().filter_map(|(id, acts)| check_one(id, acts, session));
    books(history, session).into_iter().chain(against).collect()
}

/// Checks that each event of a session fits the plugin's earlier events. Returns the first error.
fn books(history: &History, session: &Session) -> Option<String> {
    let mut known: BTreeMap<String, &'static str> = session.shown.clone();
    // After a failed start, and until the Stop, plugins know different states: some saw the start
    // and some did not. The state in a request can match only one of them.
    let is_vague = |id: &str, at: u64| {
        let is_vague = |act: &Act| act.said <= at && act.told.len() > 1 && act.told[1][0] == "StartContainer";
        history.get(id).is_some_and(|acts| acts.iter().any(is_vague))
    };
    for Told { event, pod, container, at } in &session.told {
        let pod = format!("p/{pod}");
        let id = container.as_ref().map(|(id, _)| format!("c/{id}")).unwrap_or_default();
        let (was, pod_was) = (known.get(&id).copied(), known.get(&pod).copied());
        let words = container.as_ref().map(|(_, state)| *state);
        let is_alive = |state: Option<&str>| matches!(state, Some("created" | "running"));
        let is_vague = is_vague(&id, *at);
        let fits = match *event {
            "RunPodSandbox" => known.insert(pod.clone(), "pod").is_none(),
            "StopPodSandbox" => known.insert(pod.clone(), "stopped") == Some("pod"),
            // A stopped pod is not in the snapshot, but its Remove is sent.
            "RemovePodSandbox" => known.remove(&pod).is_none_or(|was| was == "stopped"),
            "CreateContainer" => known.insert(id.clone(), "created").is_none(),
            // A stopped container may be started again, even if it was not in the snapshot. The
            // same is true of its synthetic pod.
            "StartContainer" => {
                if pod[2..] == id[2..] {
                    known.insert(pod.clone(), "pod");
                }
                known.insert(id.clone(), "running");
                words == Some("created")
            }
            "StopContainer" => {
                let was = known.insert(id.clone(), "stopped");
                matches!(was, Some("created" | "running")) && words == Some("stopped")
            }
            "RemoveContainer" => known.remove(&id).is_none_or(|was| was == "stopped") && words == Some("stopped"),
            "PostCreateContainer" | "PostStartContainer" => {
                let was_so = *event == "PostCreateContainer" || was == Some("running");
                is_vague || was == words && is_alive(was) && was_so
            }
            // Updates are also sent for stopped containers.
            "UpdateContainer" | "PostUpdateContainer" => {
                // The plugin may get an update that was open when the plugin joined, and that was
                // requested before the start which its snapshot shows.
                let is_late = words == Some("created") && session.shown.get(&id) == Some(&"running");
                is_vague || is_late || was.is_none_or(|was| Some(was) == words)
            }
            _ => true,
        };
        if !fits {
            let plugin = &session.plugin;
            return Some(format!(
                "{plugin} was told {event} of {id} in {pod} at {at}, which says {words:?}, after {was:?} in {pod_was:?}"
            ));
        }
    }
    let left = known.iter().find(|(_, state)| **state != "stopped");
    left.map(|(id, state)| format!("{} was never told the end of {id}, which is {state}", session.plugin))
}

/// Checks that there is a moment such that the snapshot shows everything before it, and the plugin
/// was notified of everything after it. Returns an error otherwise.
fn check_one(id: &str, acts: &[Act], session: &Session) -> Option<String> {
    let is_about = |told: &&Told| match (&told.container, id.split_once('/')) {
        (Some((container, _)), Some(("c", id))) => container == id,
        (None, Some(("p", id))) => told.pod == id,
        _ => false,
    };
    let is_counted = |told: &&Told| !told.event.starts_with("Post") && !told.event.starts_with("Update");
    let told: Vec<_> =
        session.told.iter().filter(is_about).filter(is_counted).map(|told| (told.event, told.at)).collect();
    let shown = session.shown.get(id).copied();
    let is_possible = |place: &usize| {
        let (before, after) = acts.split_at(*place);
        let was_shown = before.last().map_or(shown.is_none(), |last| last.shown.contains(&shown));
        was_shown
            && before.iter().all(|act| act.said <= session.synced)
            && after.iter().all(|act| act.done > session.begun)
            && is_told(after, &told)
    };
    if (0..=acts.len()).any(|place| is_possible(&place)) {
        return None;
    }
    let Session { plugin, begun, synced, .. } = session;
    Some(format!(
        "{plugin} (joined {begun} to {synced}) was shown {id} as {shown:?} and told {told:?}, but what happened is {acts:?}"
    ))
}

/// Returns whether these events are those of the actions, none of them before its action was
/// reported.
fn is_told(acts: &[Act], told: &[(&'static str, u64)]) -> bool {
    let Some((act, rest)) = acts.split_first() else { return told.is_empty() };
    act.told.iter().any(|events| {
        let Some((now, later)) = told.split_at_checked(events.len()) else { return false };
        let fits = now.iter().zip(events).all(|((event, at), expected)| event == expected && *at >= act.said);
        fits && is_told(rest, later)
    })
}

/// Returns events, given as the name, the state in the request, and the time.
fn told(events: &[(&'static str, &'static str, u64)]) -> Vec<Told> {
    let one = |(event, words, at): &(&'static str, &'static str, u64)| Told {
        at: *at,
        event,
        pod: "p".to_owned(),
        container: (!words.is_empty()).then(|| ("c".to_owned(), *words)),
    };
    events.iter().map(one).collect()
}

#[test]
fn the_checker_tells_right_from_wrong() {
    let act = |said, told: &[&[&'static str]], shown: &[Option<&'static str>]| Act {
        said,
        done: said + 5,
        told: told.iter().map(|told| told.to_vec()).collect(),
        shown: shown.to_vec(),
    };
    let life = vec![
        act(10, &[&["CreateContainer"]], &[Some("created")]),
        act(20, &[&["StartContainer"]], &[Some("running")]),
        act(30, &[&["StopContainer"]], &[None]),
        act(40, &[&[], &["StartContainer", "StopContainer"]], &[None]),
        act(50, &[&["RemoveContainer"]], &[None]),
    ];
    let history = History::from([("c/c".to_owned(), life)]);
    let is_right = |joined: u64, shown: Option<&'static str>, heard: &[(&'static str, &'static str, u64)]| {
        let shown = shown.map(|state| ("c/c".to_owned(), state)).into_iter().collect();
        let session =
            Session { plugin: "10-a".to_owned(), begun: joined, synced: joined + 1, shown, told: told(heard) };
        check(&history, &session).is_empty()
    };
    let (create, start) = (("CreateContainer", "created", 11), ("StartContainer", "created", 21));
    let (stop, remove) = (("StopContainer", "stopped", 31), ("RemoveContainer", "stopped", 51));
    let failed = [("StartContainer", "created", 41), ("StopContainer", "stopped", 42)];
    assert!(is_right(1, None, &[create, start, stop, remove]));
    assert!(is_right(1, None, &[create, start, stop, failed[0], failed[1], remove]));
    assert!(is_right(26, Some("running"), &[stop, remove]));
    assert!(is_right(36, None, &[remove]));
    assert!(is_right(60, None, &[]));
    assert!(is_right(26, Some("running"), &[("UpdateContainer", "running", 28), stop, remove]));
    assert!(!is_right(1, None, &[create, start, ("StopContainer", "stopped", 29), remove]), "before it was said");
    assert!(!is_right(1, None, &[create, start, stop, failed[1], remove]), "a second Stop without a Start");
    assert!(!is_right(1, None, &[create, start, stop, failed[0], remove]), "a Start that is not undone");
    assert!(!is_right(26, Some("created"), &[stop, remove]), "in the wrong state");
    assert!(!is_right(26, None, &[stop, remove]), "not shown");
    assert!(!is_right(36, Some("running"), &[remove]), "its Stop never comes");
    assert!(!is_right(26, Some("running"), &[("UpdateContainer", "stopped", 28), stop, remove]), "contrary words");
    assert!(!is_right(26, Some("running"), &[stop]), "lost");
    assert!(!is_right(26, None, &[remove]), "neither shown nor told");
}
