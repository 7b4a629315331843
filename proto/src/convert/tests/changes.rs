use std::collections::HashMap;

use super::*;

fn check_map(entries: &[(&str, &str)], expected: &[(&str, Change<&str>)]) {
    let entries: HashMap<_, _> = entries.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    let changes: ChangeMap<String> = entries.translate();
    let changes: Vec<_> = changes.iter().map(|(key, change)| (key, change.map(String::as_str))).collect();
    assert_eq!(changes, expected);
}

fn check_list(entries: &[(&str, &str)], expected: &[(&str, Change<&str>)]) {
    let entries: Vec<_> = entries.iter().map(|&(key, value)| variable(key, value)).collect();
    let changes: ChangeList<EnvVar> = entries.translate();
    let changes: Vec<_> = changes.iter().map(|(key, change)| (key, change.map(|var| &*var.value))).collect();
    assert_eq!(changes, expected);
}

fn check_args(args: &[&str], expected: Option<Change<&[&str]>>) {
    let args: Args = args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>().translate();
    let change = args.change().map(|change| change.map(|list| list.iter().map(String::as_str).collect::<Vec<_>>()));
    assert_eq!(change, expected.map(|change| change.map(<[_]>::to_vec)));
}

#[test]
fn a_key_without_a_dash_is_set() {
    check_map(&[("k", "v")], &[("k", Change::Set("v"))]);
    check_list(&[("k", "v")], &[("k", Change::Set("v"))]);
}

#[test]
fn a_key_with_a_dash_is_removed() {
    check_map(&[("-k", "")], &[("k", Change::Remove)]);
    check_list(&[("-k", "")], &[("k", Change::Remove)]);
}

#[test]
fn a_key_with_and_without_a_dash_is_replaced() {
    check_map(&[("-k", ""), ("k", "v")], &[("k", Change::Replace("v"))]);
    check_list(&[("-k", ""), ("k", "v")], &[("k", Change::Replace("v"))]);
    check_list(&[("k", "v"), ("-k", ""), ("-k", "")], &[("k", Change::Replace("v"))]);
}

#[test]
fn the_value_of_a_key_with_a_dash_means_nothing() {
    check_map(&[("-k", "v")], &[("k", Change::Remove)]);
    check_list(&[("-k", "v")], &[("k", Change::Remove)]);
}

#[test]
fn a_key_is_removed_with_its_own_dash() {
    check_map(&[("--k", ""), ("-k", "")], &[("-k", Change::Remove), ("k", Change::Remove)]);
    check_list(&[("--k", ""), ("k", "v")], &[("-k", Change::Remove), ("k", Change::Set("v"))]);
}

#[test]
fn an_empty_key_is_a_key() {
    check_map(&[("", "v"), ("-", "")], &[("", Change::Replace("v"))]);
    check_list(&[("", "v")], &[("", Change::Set("v"))]);
    check_list(&[("-", "")], &[("", Change::Remove)]);
}

#[test]
fn a_list_keeps_its_order_and_what_is_there_twice() {
    check_list(
        &[("b", "1"), ("-c", ""), ("a", "2"), ("b", "3"), ("-c", "")],
        &[
            ("b", Change::Set("1")),
            ("c", Change::Remove),
            ("a", Change::Set("2")),
            ("b", Change::Set("3")),
            ("c", Change::Remove),
        ],
    );
    check_list(&[("b", "1"), ("b", "2"), ("-b", "")], &[("b", Change::Replace("1")), ("b", Change::Replace("2"))]);
}

#[test]
fn an_empty_first_argument_replaces() {
    check_args(&[], None);
    check_args(&["app", ""], Some(Change::Set(&["app", ""])));
    check_args(&["", "app"], Some(Change::Replace(&["app"])));
    check_args(&["", "", "app"], Some(Change::Replace(&["", "app"])));
    check_args(&[""], Some(Change::Remove));
}

#[test]
fn a_removal_is_written_in_front_of_what_replaces_it() {
    let mut env = ChangeList::new();
    env.set(EnvVar::new("a", "1")).unwrap();
    env.replace(EnvVar::new("b", "2")).unwrap();
    env.remove("c");

    let written: Vec<api::KeyValue> = env.translate();
    assert_eq!(written, [variable("a", "1"), variable("-b", ""), variable("b", "2"), variable("-c", "")]);
}

#[test]
fn a_key_that_begins_with_a_dash_can_only_be_removed() {
    let mut annotations = ChangeMap::<String>::new();
    assert_eq!(annotations.set("-k", "v"), Err(DashedKey("-k".to_owned())));
    assert_eq!(annotations.replace("-k", "v"), Err(DashedKey("-k".to_owned())));
    annotations.remove("-k");
    assert_eq!(annotations.len(), 1);

    let mut mounts = ChangeList::new();
    let mount = Mount { destination: "-/x".to_owned(), ..Mount::default() };
    assert_eq!(mounts.set(mount.clone()), Err(DashedKey("-/x".to_owned())));
    assert_eq!(mounts.replace(mount), Err(DashedKey("-/x".to_owned())));
    mounts.remove("-/x");
    assert_eq!(mounts.len(), 1);
}

proptest! {
    #[test]
    fn an_adjustment_with_dashes_anywhere_is_the_same_after_it_was_a_message(
        bytes in prop::collection::vec(any::<u8>(), 0..1024),
    ) {
        let adjustment = Adjustment::from(fill::dashed::<api::ContainerAdjustment>(bytes));
        assert_eq!(Adjustment::from(api::ContainerAdjustment::from(adjustment.clone())), adjustment);
    }
}

fn variable(key: &str, value: &str) -> api::KeyValue {
    api::KeyValue { key: key.to_owned(), value: value.to_owned(), ..Default::default() }
}
