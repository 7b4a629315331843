use super::*;
use crate::model::EnvVar;

/// `A=1` sets, `!A=1` replaces, `-A` removes.
fn changes(script: &str) -> ChangeList<EnvVar> {
    let mut changes = ChangeList::new();
    for change in script.split_whitespace() {
        match change.split_once('=') {
            None => changes.remove(change.trim_start_matches('-')),
            Some((name, value)) => match name.strip_prefix('!') {
                Some(name) => changes.replace(EnvVar::new(name, value)).unwrap(),
                None => changes.set(EnvVar::new(name, value)).unwrap(),
            },
        }
    }
    changes
}

fn script(changes: &ChangeList<EnvVar>) -> String {
    let changes = changes.iter().map(|(name, change)| match change {
        Change::Set(var) => format!("{name}={}", var.value),
        Change::Replace(var) => format!("!{name}={}", var.value),
        Change::Remove => format!("-{name}"),
    });
    changes.collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check(made: &str, expected: &str) {
    assert_eq!(script(&changes(made)), expected);
}

#[track_caller]
fn check_then(earlier: &str, later: &str, expected: &str) {
    let mut list = changes(earlier);
    list.then(changes(later));
    assert_eq!(script(&list), expected);
}

#[test]
fn a_key_may_be_set_twice() {
    check("A=1 B=2 A=3", "A=1 B=2 A=3");
    check("!A=1 A=2", "!A=1 !A=2");
}

#[test]
fn what_is_removed_and_then_set_is_replaced() {
    check("-A B=1 A=2", "B=1 !A=2");
}

#[test]
fn a_removal_or_replacement_undoes_what_was_said_before() {
    check("A=1 A=2 -A", "-A");
    check("A=1 B=2 !A=3", "B=2 !A=3");
    check("-A -A", "-A");
}

#[test]
fn changes_of_one_key_under_two_spellings_are_changes_of_one_key() {
    for (made, expected) in [
        ("A=1 B=2", "A=1 B=2"),
        ("A/=1 B=2", "A=1 B=2"),
        ("A=1 B=2 A/=3", "A=1 B=2 A=3"),
        ("-A/ B=2 A=1", "B=2 !A=1"),
        ("!A/=1 A=2", "!A=1 !A=2"),
        ("-A -A/", "-A"),
    ] {
        let mut list = changes(made);
        list.respell(|key| key.strip_suffix('/').map(str::to_owned));
        assert_eq!(script(&list), expected, "{made}");
    }
    let mut list = changes("A=1 -B");
    list.respell(|key| Some(format!("-{key}")));
    assert_eq!(script(&list), "A=1 --B", "only a removal can be of a key with a dash");
}

#[test]
fn later_changes_follow_earlier_ones() {
    check_then("A=1", "B=2", "A=1 B=2");
    check_then("A=1", "", "A=1");
    check_then("", "A=1 -B", "A=1 -B");
}

#[test]
fn a_replacement_is_a_value_once_nobody_elses_is_left() {
    check_then("A=1 B=2", "!A=3", "B=2 A=3");
    check_then("", "!A=1", "A=1");
}

#[test]
fn a_later_removal_undoes_an_earlier_value() {
    check_then("A=1 B=2", "-A", "B=2 -A");
    check_then("-A", "-A", "-A");
}

#[test]
fn an_earlier_removal_stays_in_front_of_a_later_value() {
    check_then("-A B=1", "A=2", "B=1 !A=2");
    check_then("-A", "!A=2", "!A=2");
}

#[test]
fn many_keys_are_found_as_few_are() {
    let many: ChangeList<EnvVar> = changes("A=1 B=1 C=1 D=1 E=1 F=1 G=1 H=1 I=1");
    assert!(many.keys().contains("I") && !many.keys().contains("J"));
    assert!(matches!(many.keys(), ChangedKeys::Many(_)));
    let few: ChangeList<EnvVar> = changes("A=1");
    assert!(few.keys().contains("A") && !few.keys().contains("J"));
    assert!(matches!(few.keys(), ChangedKeys::Few(_)));
}
