use nri_proto::arbitrary;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::merge::{Changed, Changes};

fn some_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        ".{0,200}".prop_map(Value::Text),
        vec(".{0,20}", 0..20).prop_map(Value::Texts),
        any::<i64>().prop_map(Value::Signed),
        any::<u64>().prop_map(Value::Unsigned),
        any::<bool>().prop_map(Value::Flag),
        arbitrary::mount().prop_map(Value::from),
        arbitrary::device().prop_map(Value::from),
        vec(arbitrary::device_rule(), 0..4).prop_map(Value::from),
        arbitrary::net_device().prop_map(Value::from),
        arbitrary::namespace().prop_map(Value::from),
        arbitrary::hooks().prop_map(Value::from),
        arbitrary::io_priority().prop_map(Value::from),
        arbitrary::seccomp().prop_map(Value::from),
        arbitrary::scheduler().prop_map(Value::from),
        arbitrary::memory_policy().prop_map(Value::from),
        arbitrary::rlimit().prop_map(Value::from),
    ]
}

fn some_change() -> impl Strategy<Value = EntryKind> {
    let field = prop_oneof![Just(Field::Env), Just(Field::Mounts), Just(Field::Args)];
    let values = (proptest::option::of(some_value()), proptest::option::of(some_value()));
    (field, "[ab]?", values).prop_map(|(field, key, (before, after))| change(field, &key, before, after))
}

fn some_record() -> impl Strategy<Value = (Occasion, EntryKind)> {
    let what = prop_oneof![
        4 => some_change(),
        1 => (0..3000usize).prop_map(refusal),
        1 => Just(EntryKind::TimedOut),
        1 => vec(arbitrary::field(), 0..90).prop_map(|fields| EntryKind::Late { fields }),
    ];
    let occasion =
        ("[xy]", any::<bool>()).prop_map(|(container, shadow)| Occasion { shadow, ..occasion("10-a", &container) });
    (occasion, what)
}

proptest! {
    #[test]
    fn it_never_takes_more_than_its_bound_and_forgets_the_oldest(
        records in vec(some_record(), 0..30),
        limit in 0..40_000usize,
    ) {
        let mut ledger = Ledger::new(limit);
        for (n, (occasion, what)) in records.into_iter().enumerate() {
            ledger.record(&occasion, what);
            let entries = ledger.all();
            prop_assert!(ledger.n_bytes() <= limit);
            prop_assert_eq!(ledger.n_forgotten() + entries.len() as u64, n as u64 + 1);
            prop_assert!(entries.is_sorted_by_key(|entry| entry.sequence));
        }
    }

    #[test]
    fn what_a_reply_changed_is_read_as_if_each_change_were_recorded_alone(changes in vec(some_change(), 0..8)) {
        let (mut alone, mut together) = (Ledger::new(usize::MAX), Ledger::new(usize::MAX));
        changes.iter().for_each(|what| alone.record(&occasion("10-a", "c"), what.clone()));
        let changed = changes.iter().cloned().filter_map(|what| {
            let EntryKind::Changed(Change { field, key, before, after }) = what else { return None };
            Some(Changed { container: None, field, key, before, after })
        });
        let applied = Applied { changes: changed.collect(), dropped: Vec::new() };
        together.record_applied(&occasion("10-a", "c"), applied);
        for (entry, what) in alone.all().iter().zip(changes) {
            // As an object, because unknown fields are not recorded.
            let recorded = Entry { what, ..Entry::clone(entry) };
            prop_assert_eq!(serde_json::to_value(&**entry).unwrap(), serde_json::to_value(recorded).unwrap());
        }
        prop_assert_eq!(together.all(), alone.all());
        prop_assert_eq!(together.why("c", Field::Env, None), alone.why("c", Field::Env, None));
    }

    #[test]
    fn with_room_for_all_why_and_of_are_filters_of_what_was_recorded(records in vec(some_record(), 0..30)) {
        let mut ledger = Ledger::new(usize::MAX);
        for (occasion, what) in &records {
            ledger.record(occasion, what.clone());
        }
        prop_assert_eq!(ledger.n_forgotten(), 0);
        let numbers = |entries: Vec<Arc<Entry>>| entries.iter().map(|entry| entry.sequence).collect::<Vec<_>>();
        let expected = |is_meant: &dyn Fn(&Occasion, &EntryKind) -> bool| {
            let all = records.iter().zip(0..);
            all.filter(|((occasion, what), _)| is_meant(occasion, what)).map(|(_, number)| number).collect::<Vec<u64>>()
        };
        let is_x = |occasion: &Occasion| occasion.container.as_deref() == Some("x");
        prop_assert_eq!(numbers(ledger.all()), expected(&|_, _| true));
        prop_assert_eq!(numbers(ledger.of("x")), expected(&|occasion, _| is_x(occasion)));
        for key in [None, Some("a")] {
            let changes = expected(&|occasion, what| {
                let EntryKind::Changed(change) = what else { return false };
                let is_meant = change.field == Field::Env && key.is_none_or(|key| key == change.key);
                is_meant && is_x(occasion) && !occasion.shadow
            });
            prop_assert_eq!(numbers(ledger.why("x", Field::Env, key)), changes);
        }
    }

    #[test]
    fn each_entry_reads_as_one_line_and_as_an_object((occasion, what) in some_record()) {
        let mut ledger = Ledger::new(usize::MAX);
        ledger.record(&occasion, what);
        let line = ledger.all()[0].to_string();
        prop_assert!(!line.contains('\n') && line.chars().count() < 1000, "{}", line);
        let object = serde_json::to_value(&ledger).unwrap();
        prop_assert_eq!(object["entries"][0]["plugin"].as_str(), Some("10-a"));
    }
}

fn set_env(key: &str, value: &str) -> Changed {
    Changed { container: None, field: Field::Env, key: key.to_owned(), before: None, after: text(value) }
}

#[test]
fn the_changes_of_one_reply_are_forgotten_together_and_none_of_another() {
    let mut ledger = Ledger::new(16 << 10);
    for n in 0.. {
        let changes = ["A", "B", "C"].map(|key| set_env(key, "1")).into_iter().collect();
        ledger.record_applied(&occasion("10-a", "c"), Applied { changes, dropped: Vec::new() });
        let entries = ledger.all();
        assert!(ledger.n_bytes() <= 16 << 10);
        assert_eq!((ledger.n_forgotten() % 3, entries.len() as u64 + ledger.n_forgotten()), (0, 3 * (n + 1)));
        assert!(entries.iter().map(|entry| entry.sequence).eq(ledger.n_forgotten()..3 * (n + 1)));
        if ledger.n_forgotten() > 20 {
            break;
        }
    }
}

#[test]
fn a_reply_that_changes_more_than_fits_leaves_its_last_changes() {
    let changes: Changes = (0..10_000).map(|n| set_env(&n.to_string(), "1")).collect();
    let mut ledger = Ledger::new(64 << 10);
    ledger.record_applied(&occasion("10-a", "c"), Applied { changes, dropped: Vec::new() });
    let entries = ledger.all();
    assert!(ledger.n_bytes() <= 64 << 10 && ledger.n_forgotten() > 0 && entries.len() > 500, "{}", entries.len());
    assert_eq!(entries.last().unwrap().what, env("9999", None, Some("1")));
}

#[test]
fn one_change_of_a_reply_that_is_too_large_is_kept_without_its_values_and_the_others_whole() {
    let changes = [set_env("A", "1"), set_env("B", &"x".repeat(1 << 20)), set_env("C", "3")].into_iter().collect();
    let mut ledger = Ledger::new(64 << 10);
    ledger.record_applied(&occasion("10-a", "c"), Applied { changes, dropped: Vec::new() });
    let whats: Vec<_> = ledger.all().iter().map(|entry| (entry.is_cut, entry.what.clone())).collect();
    let expected = [env("A", None, Some("1")), env("B", None, None), env("C", None, Some("3"))];
    assert_eq!(whats, [false, true, false].into_iter().zip(expected).collect::<Vec<_>>());
}

#[test]
fn an_entry_that_is_too_large_for_its_share_is_kept_without_its_values() {
    let mut ledger = Ledger::new(16 * 1024);
    ledger.record(&occasion("10-a", "c"), env("A", Some("0"), Some(&"x".repeat(1024))));
    let entries = ledger.why("c", Field::Env, Some("A"));
    assert!(entries[0].is_cut);
    assert_eq!(entries[0].what, env("A", None, None));
    assert_eq!(entries[0].to_string(), "10-a changed Env A, values too large to be kept");
}

#[test]
fn texts_of_an_entry_that_is_too_large_are_cut() {
    let mut ledger = Ledger::new(64 * 1024);
    let huge = "é".repeat(1 << 20);
    ledger.record(&occasion(&huge, &huge), refusal(1 << 20));
    let entry = &ledger.all()[0];
    assert!(entry.is_cut && ledger.n_bytes() < 4096);
    assert_eq!(&*entry.occasion.plugin, "é".repeat(128));
    assert_eq!(entry.what, refusal(256));
}

#[test]
fn a_large_entry_does_not_push_out_all_others() {
    let mut ledger = Ledger::new(64 * 1024);
    for n in 0..10 {
        ledger.record(&occasion("10-a", &n.to_string()), EntryKind::TimedOut);
    }
    ledger.record(&occasion("20-b", "x"), refusal(1 << 20));
    assert_eq!((ledger.all().len(), ledger.n_forgotten()), (11, 0));
}

#[test]
fn without_room_everything_is_counted_and_nothing_kept() {
    let mut ledger = Ledger::new(0);
    ledger.record(&occasion("10-a", "c"), EntryKind::TimedOut);
    assert_eq!((ledger.all().len(), ledger.n_forgotten(), ledger.n_bytes()), (0, 1, 0));
}
