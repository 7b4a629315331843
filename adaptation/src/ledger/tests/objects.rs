use nri_proto::{IoPriority, IoPriorityClass, MemoryPolicy, MemoryPolicyMode, Mount, Scheduler, SchedulerPolicy};
use serde_json::{Value as Json, json};

use super::*;
use crate::api::health::State;
use crate::config::policy::NotAllowed;
use crate::merge::MergeError;

/// Compares the fields of an entry beyond those that all entries have.
#[track_caller]
fn check(what: EntryKind, expected: Json) {
    let entry = Entry { sequence: 7, occasion: occasion("10-a", "c").into(), what, is_cut: false };
    let mut object = serde_json::to_value(&entry).unwrap();
    let fields = object.as_object_mut().unwrap();
    let common: Vec<_> =
        ["sequence", "when", "plugin", "event", "pod", "container"].map(|key| fields.remove(key).unwrap()).into();
    assert_eq!(json!(common), json!([7, "2023-11-14T22:13:20.123Z", "10-a", "CreateContainer", "pod", "c"]));
    assert_eq!(object, expected);
}

#[test]
fn a_change_has_its_values() {
    check(
        env("A", None, Some("1")),
        json!({ "what": "changed", "field": "Env", "key": "A", "secret": true, "after": "1" }),
    );
    let args = |args: &[&str]| Some(Value::Texts(args.iter().map(|&arg| arg.to_owned()).collect()));
    check(
        change(Field::Args, "", args(&["sh"]), args(&["sh", "-c"])),
        json!({ "what": "changed", "field": "Args", "before": ["sh"], "after": ["sh", "-c"] }),
    );
    check(
        change(Field::MemLimit, "", Some(Value::Signed(-1)), Some(Value::Signed(7))),
        json!({ "what": "changed", "field": "MemLimit", "before": -1, "after": 7 }),
    );
}

#[test]
fn values_have_the_names_of_upstream() {
    let value = |value: Value| serde_json::to_value(value).unwrap();
    let mount = Mount { destination: "/a".to_owned(), kind: "bind".to_owned(), ..Mount::default() };
    let scheduler = Scheduler { policy: SchedulerPolicy::RoundRobin, nice: 5, ..Scheduler::default() };
    let memory = MemoryPolicy { mode: MemoryPolicyMode::Bind, nodes: "0".to_owned(), ..MemoryPolicy::default() };
    let io = IoPriority { class: IoPriorityClass::RealTime, ..IoPriority::default() };
    assert_eq!(value(mount.into()), json!({ "destination": "/a", "type": "bind", "source": "", "options": [] }));
    assert_eq!(value(scheduler.into())["policy"], json!("SCHED_RR"));
    assert_eq!(value(memory.into()), json!({ "mode": "MPOL_BIND", "nodes": "0", "flags": [] }));
    assert_eq!(value(io.into()), json!({ "class": "IOPRIO_CLASS_RT", "priority": 0 }));
}

#[test]
fn the_rest_has_a_reason_or_what_it_is_about() {
    check(EntryKind::TimedOut, json!({ "what": "timed-out" }));
    check(EntryKind::PassedOver(State::Suspended), json!({ "what": "passed-over", "state": "suspended" }));
    check(EntryKind::Late { fields: vec![Field::Env] }, json!({ "what": "late", "fields": ["Env"] }));
    check(refusal(3), json!({ "what": "refused", "reason": "xxx" }));
    check(
        EntryKind::NotAllowed(NotAllowed::Field { field: Field::Env, key: "A".to_owned() }),
        json!({ "what": "not-allowed", "field": "Env", "key": "A", "reason": "it may not touch Env A (allow.changes)" }),
    );
    let (plugin, container) = ("10-a".parse().unwrap(), "c".to_owned());
    check(
        EntryKind::Conflict(MergeError::UpdateDuringCreation { plugin, container }),
        json!({ "what": "conflict", "reason": "plugin \"10-a\" asked update of \"c\" during creation" }),
    );
}

#[test]
fn shadow_time_and_what_is_cut_are_told_where_they_are() {
    let occasion = Occasion { shadow: true, took: Some(Duration::from_micros(1234)), ..occasion("10-a", "c") };
    let entry = Entry { sequence: 0, occasion: occasion.into(), what: EntryKind::TimedOut, is_cut: true };
    let object = serde_json::to_value(&entry).unwrap();
    assert_eq!((&object["shadow"], &object["took_ms"], &object["cut"]), (&json!(true), &json!(1.234), &json!(true)));
}

#[test]
fn a_clock_before_1970_is_told_and_one_beyond_all_calendars_does_no_harm() {
    let when = |when| {
        let occasion = Occasion { when, ..occasion("10-a", "c") };
        serde_json::to_value(Entry { sequence: 0, occasion: occasion.into(), what: EntryKind::TimedOut, is_cut: false })
            .unwrap()["when"]
            .clone()
    };
    assert_eq!(when(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), json!("1969-12-31T23:59:59Z"));
    let far = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(1 << 60)).unwrap();
    assert_eq!(when(far), json!("1970-01-01T00:00:00Z"));
}

#[test]
fn the_whole_says_how_much_is_forgotten() {
    let mut ledger = Ledger::new(0);
    ledger.record(&occasion("10-a", "c"), EntryKind::TimedOut);
    assert_eq!(serde_json::to_value(&ledger).unwrap(), json!({ "forgotten": 1, "entries": [] }));
}
