use nri_proto::{
    Adjustment, Container, CreateReply, DeviceRule, EnvVar, Eviction, Memory, PluginId, Resources, Update,
};

use super::*;
use crate::merge::{CreateMerge, Touch};

fn lines(entries: &[Arc<Entry>]) -> Vec<String> {
    entries.iter().map(ToString::to_string).collect()
}

fn setting(adjust: impl FnOnce(&mut Adjustment)) -> CreateReply {
    let mut adjustment = Adjustment::default();
    adjust(&mut adjustment);
    CreateReply { adjustment: Some(adjustment), ..CreateReply::default() }
}

/// Applies replies in order, and records the changes of each.
fn ledger(replies: impl IntoIterator<Item = (&'static str, CreateReply)>) -> Ledger {
    let mut ledger = Ledger::new(1 << 20);
    let mut merge = CreateMerge::new(Container { id: "c".to_owned(), ..Container::default() });
    for (plugin, reply) in replies {
        let applied = merge.apply(&plugin.parse::<PluginId>().unwrap(), reply).unwrap();
        ledger.record_applied(&occasion(plugin, "c"), applied);
    }
    ledger
}

#[test]
fn the_chain_of_changes_is_told_in_order() {
    let ledger = ledger([
        ("10-a", setting(|adjustment| adjustment.env.set(EnvVar::new("LEVEL", "info")).unwrap())),
        ("20-b", setting(|adjustment| adjustment.env.replace(EnvVar::new("LEVEL", "debug")).unwrap())),
        ("30-c", setting(|adjustment| adjustment.env.set(EnvVar::new("OTHER", "1")).unwrap())),
        ("40-d", setting(|adjustment| adjustment.env.remove("LEVEL"))),
    ]);
    let relay = ["10-a set Env LEVEL: info", "20-b set Env LEVEL: info -> debug", "40-d removed Env LEVEL: debug"];
    assert_eq!(lines(&ledger.why("c", Field::Env, Some("LEVEL"))), relay);
    assert_eq!(ledger.why("c", Field::Env, None).len(), 4);
    assert!(ledger.why("c", Field::Mounts, None).is_empty() && ledger.why("d", Field::Env, None).is_empty());
}

#[test]
fn what_was_not_applied_is_no_reason() {
    let mut ledger = Ledger::new(1 << 20);
    let shadow = Occasion { shadow: true, ..occasion("10-a", "c") };
    ledger.record(&shadow, env("A", None, Some("1")));
    assert!(ledger.why("c", Field::Env, None).is_empty());
    assert_eq!(lines(&ledger.of("c")), ["10-a (shadow) set Env A: 1"]);
}

fn pids(after: i64) -> EntryKind {
    change(Field::PidsLimit, "", None, Some(Value::Signed(after)))
}

fn failure() -> EntryKind {
    EntryKind::UpdateFailed { reason: "the cgroup is gone".to_owned() }
}

fn later(occasion: &Occasion, seconds: u64) -> Occasion {
    Occasion { when: occasion.when + Duration::from_secs(seconds), ..occasion.clone() }
}

#[test]
fn an_update_that_failed_is_no_reason() {
    let mut ledger = Ledger::new(1 << 20);
    let by_itself = Occasion { event: None, pod: None, ..occasion("10-a", "c") };
    ledger.record(&by_itself, pids(1));
    let again = later(&by_itself, 1);
    ledger.record(&again, env("A", None, Some("1")));
    ledger.record(&again, pids(2));
    // Other entries lie between.
    ledger.record(&later(&by_itself, 2), pids(3));
    ledger.record(&again, failure());
    assert_eq!(lines(&ledger.why("c", Field::PidsLimit, None)), ["10-a set PidsLimit: 1", "10-a set PidsLimit: 3"]);
    assert!(ledger.why("c", Field::Env, None).is_empty());
    assert_eq!(ledger.of("c").len(), 5);
}

#[test]
fn an_update_whose_failure_was_written_down_later_is_no_reason() {
    let mut ledger = Ledger::new(1 << 20);
    let asked = occasion("10-a", "c");
    ledger.record(&asked, pids(1));
    ledger.record(&later(&asked, 1), pids(2));
    ledger.record(&occasion("20-b", "c"), env("A", None, Some("1")));
    ledger.record(&Occasion { in_vain: true, ..later(&asked, 2) }, pids(3));
    ledger.record(&later(&asked, 3), failure());
    assert_eq!(lines(&ledger.why("c", Field::PidsLimit, None)), ["10-a set PidsLimit: 1"]);
    assert_eq!(ledger.why("c", Field::Env, None).len(), 1);
}

#[test]
fn changes_of_other_containers_are_found_by_theirs() {
    let limit = |container: &str| {
        let memory = Some(Memory { limit: Some(7), ..Memory::default() });
        let devices = vec![DeviceRule::default()];
        Update::new(container, Resources { memory, devices, ..Resources::default() })
    };
    let reply = CreateReply {
        updates: vec![limit("x"), limit("y")],
        ..setting(|adjustment| adjustment.env.set(EnvVar::new("A", "1")).unwrap())
    };
    let ledger = ledger([("10-a", reply)]);
    assert_eq!(lines(&ledger.of("c")), ["10-a set Env A: 1"]);
    assert_eq!(lines(&ledger.why("x", Field::MemLimit, None)), ["10-a set MemLimit: 7"]);
    assert_eq!(
        lines(&ledger.of("y")),
        [
            "10-a set MemLimit: 7",
            "10-a had a part of its reply ignored: device rules apply only to a new container, not to y",
        ]
    );
}

#[test]
fn an_eviction_is_found_by_the_container_that_is_to_go() {
    let mut ledger = Ledger::new(1 << 20);
    let eviction = Eviction { container_id: "x".to_owned(), reason: "room".to_owned(), ..Eviction::default() };
    ledger.record_evictions(&occasion("10-a", "c"), [&eviction]);
    assert_eq!(lines(&ledger.of("x")), ["10-a asked to evict x: room"]);
    assert!(ledger.of("c").is_empty());
}

#[test]
fn u37_a_late_answer_is_told_with_what_it_would_have_changed() {
    let mut ledger = Ledger::new(1 << 20);
    let reply = setting(|adjustment| {
        adjustment.env.set(EnvVar::new("A", "1")).unwrap();
        adjustment.env.set(EnvVar::new("B", "1")).unwrap();
        adjustment.annotations.remove("c");
    });
    let what = EntryKind::late(Touch::of_adjustment(reply.adjustment.as_ref().unwrap()));
    ledger.record(&occasion("10-a", "c"), what);
    assert_eq!(lines(&ledger.of("c")), ["10-a answered CreateContainer too late to change Annotations, Env"]);
}

#[test]
fn what_is_read_stays_while_more_is_recorded() {
    let mut ledger = Ledger::new(4096);
    ledger.record(&occasion("10-a", "c"), EntryKind::TimedOut);
    let read = ledger.all();
    for _ in 0..100 {
        ledger.record(&occasion("10-a", "d"), EntryKind::TimedOut);
    }
    assert!(ledger.n_forgotten() > 0 && ledger.of("c").is_empty());
    assert_eq!(read[0].sequence, 0);
}
