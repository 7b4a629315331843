use nri_proto::{Hook, Hooks, Mount, Unread};

use super::*;
use crate::Cause;
use crate::api::health::State;
use crate::api::plugin::PluginError;
use crate::config::policy::NotAllowed;
use crate::merge::{Conflict, MergeError};

#[track_caller]
fn check(what: impl Into<EntryKind>, expected: &str) {
    let entry = Entry { sequence: 0, occasion: occasion("10-a", "c").into(), what: what.into(), is_cut: false };
    assert_eq!(entry.to_string(), expected);
}

#[test]
fn a_change_shows_what_was_and_what_is() {
    check(env("A", None, Some("1")), "10-a set Env A: 1");
    check(env("A", Some("0"), Some("1")), "10-a set Env A: 0 -> 1");
    check(env("A", Some("0"), None), "10-a removed Env A: 0");
    check(env("A", None, None), "10-a removed Env A, which was not there");
    check(change(Field::MemLimit, "", Some(Value::Signed(1)), Some(Value::Signed(2))), "10-a set MemLimit: 1 -> 2");
}

#[test]
fn what_is_no_text_is_an_object() {
    let mount = Mount { destination: "/a".to_owned(), kind: "bind".to_owned(), ..Mount::default() };
    check(
        change(Field::Mounts, "/a", None, Some(mount.into())),
        r#"10-a set Mounts /a: {"destination":"/a","type":"bind","source":"","options":[]}"#,
    );
    let hooks = Hooks { poststop: vec![Hook { path: "/h".to_owned(), ..Hook::default() }], ..Hooks::default() };
    check(
        change(Field::OciHooks, "", None, Some(hooks.into())),
        r#"10-a set OciHooks: {"poststop":[{"path":"/h","args":[],"env":[]}]}"#,
    );
}

#[test]
fn what_came_of_a_question_is_a_sentence() {
    let conflict = Conflict {
        container: "c".to_owned(),
        field: Field::Env,
        key: "A".to_owned(),
        claimer: "10-a".parse().unwrap(),
        owner: "05-z".to_owned(),
    };
    let not_allowed = NotAllowed::Field { field: Field::Env, key: "A".to_owned() };
    let unread = Unread { message: "Mount", numbers: vec![9] };
    let reason = || "why".to_owned();
    check(
        EntryKind::Conflict(MergeError::Conflict(conflict)),
        r#"10-a was in conflict: plugins "10-a" and "05-z" both tried to set Env A"#,
    );
    check(EntryKind::NotAllowed(not_allowed), "10-a was not allowed: it may not touch Env A (allow.changes)");
    check(EntryKind::Dropped(Dropped::Unread(unread)), "10-a had a part of its reply ignored: unknown fields Mount 9");
    check(EntryKind::Late { fields: Vec::new() }, "10-a answered CreateContainer too late");
    check(EntryKind::Rejected { reason: reason() }, "10-a rejected c: why");
    check(EntryKind::UpdateFailed { reason: reason() }, "10-a could not update c: why");
    check(EntryKind::EvictionFailed { reason: String::new() }, "10-a could not evict c");
}

#[test]
fn each_cause_is_a_sentence() {
    check(&Cause::Plugin(PluginError::refused("no")), "10-a refused CreateContainer: no");
    check(&Cause::TimedOut, "10-a did not answer CreateContainer in time");
    check(&Cause::PassedOver(State::Silent), "10-a was skipped for CreateContainer: it is silent");
    check(
        &Cause::Busy,
        "10-a failed CreateContainer: the plugin was busy with other requests until lane_timeout expired",
    );
    check(
        &Cause::CutShort,
        "10-a failed CreateContainer: silent plugins have used up the time of the request (request_budget)",
    );
    check(
        &Cause::Absent,
        "10-a failed CreateContainer: the plugin is required and absent: start it, or exempt the pod (required_exempt_namespaces)",
    );
    check(
        &Cause::Plugin(PluginError::Breach("nonsense")),
        "10-a failed CreateContainer: the plugin violated the protocol: nonsense",
    );
}

#[test]
fn a_text_of_somebody_else_stays_on_the_line() {
    check(env("A\nB", None, Some("1\n2\u{1b}[31m")), r"10-a set Env A\nB: 1\n2\x1b[31m");
    // Characters that turn text around, break lines or are not seen.
    check(env("A\u{200b}", None, Some("\u{202e}1\u{2028}2\u{feff}")), r"10-a set Env A\u200b: \u202e1\u20282\ufeff");
    check(refusal(500), &format!("10-a refused CreateContainer: {}…", "x".repeat(120)));
}

#[test]
fn what_a_plugin_does_unasked_has_no_event_and_takes_no_time() {
    let unasked = Occasion { event: None, ..occasion("10-a", "c") };
    let took = Occasion { took: Some(Duration::from_micros(2_345)), ..occasion("10-a", "c") };
    let line =
        |occasion: Occasion, what| Entry { sequence: 0, occasion: occasion.into(), what, is_cut: false }.to_string();
    assert_eq!(line(unasked, EntryKind::Failed { reason: String::new() }), "10-a failed UpdateContainers");
    assert_eq!(line(took, EntryKind::TimedOut), "10-a did not answer CreateContainer in time (2.3 ms)");
}
