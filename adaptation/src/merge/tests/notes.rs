//! The changes that a merge reports.

use nri_proto::{Args, Hook, Hooks, HugepageLimit, Memory, Mount, Pids, Rdt, StopReply, Update, UpdateReply, api};
use proptest::collection::vec;
use proptest::prelude::*;

use super::entries::Kind::*;
use super::*;

fn changed(field: Field, key: &str, before: Option<Value>, after: Option<Value>) -> Changed {
    Changed { container: None, field, key: key.to_owned(), before, after }
}

fn text(text: &str) -> Option<Value> {
    Some(Value::Text(text.to_owned()))
}

/// Applies replies, and compares the changes of the last one.
#[track_caller]
fn check(original: Container, replies: Vec<CreateReply>, expected: &[Changed]) {
    let mut merge = CreateMerge::new(original);
    let mut applied = Applied::default();
    for (n, reply) in replies.into_iter().enumerate() {
        applied = merge.apply(&id(&format!("{n}0-x")), reply).unwrap();
    }
    assert_eq!(applied.changes.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn an_entry_was_what_the_plugin_before_made_it() {
    check(container(), vec![Env.reply("A=1")], &[changed(Field::Env, "A", None, text("1"))]);
    check(container(), vec![Env.reply("A=1"), Env.reply("!A=2")], &[changed(Field::Env, "A", text("1"), text("2"))]);
    check(container(), vec![Env.reply("A=1"), Env.reply("-A")], &[changed(Field::Env, "A", text("1"), None)]);
    check(container(), vec![Sysctl.reply("A=1"), Sysctl.reply("-A")], &[changed(Field::Sysctl, "A", text("1"), None)]);
}

#[test]
fn an_entry_was_what_the_runtime_made_it() {
    let mut original = container();
    original.env = vec!["A=x=y".to_owned()];
    check(original, vec![Env.reply("A=1")], &[changed(Field::Env, "A", text("x=y"), text("1"))]);

    let mut original = container();
    let mount = Mount { destination: "A".to_owned(), source: "0".to_owned(), ..Mount::default() };
    original.mounts = vec![mount.clone()];
    check(original, vec![Mounts.reply("-A")], &[changed(Field::Mounts, "A", Some(mount.into()), None)]);
}

#[test]
fn a_field_was_what_it_was() {
    let mut original = container();
    let resources = original.linux.get_or_insert_default().resources.get_or_insert_default();
    resources.memory = Some(Memory { limit: Some(1), ..Memory::default() });
    let reply = adjusting_resources(|it| {
        it.memory = Some(Memory { limit: Some(2), swappiness: Some(3), ..Memory::default() });
        it.pids = Some(Pids { limit: -1, ..Pids::default() });
    });
    check(
        original,
        vec![reply],
        &[
            changed(Field::MemLimit, "", Some(Value::Signed(1)), Some(Value::Signed(2))),
            changed(Field::MemSwappiness, "", None, Some(Value::Unsigned(3))),
            changed(Field::PidsLimit, "", None, Some(Value::Signed(-1))),
        ],
    );
}

#[test]
fn a_limit_of_huge_pages_in_an_update_was_what_the_runtime_was_asked_for() {
    let limits = |limits: &[(&str, u64)]| {
        let each = |&(size, limit): &(&str, u64)| HugepageLimit {
            page_size: size.to_owned(),
            limit,
            ..HugepageLimit::default()
        };
        Resources { hugepage_limits: limits.iter().map(each).collect(), ..Resources::default() }
    };
    let mut merge = UpdateMerge::new(NEW, limits(&[("2MB", 1), ("1GB", 2)]));
    let updates = [limits(&[("4MB", 3)]), limits(&[("1GB", 4)])].map(|limits| Update::new(NEW, limits)).into();
    let applied = merge.apply(&id("10-a"), UpdateReply { updates, ..UpdateReply::default() }).unwrap();

    let noted = |size, before: Option<u64>, after: u64| {
        changed(Field::HugepageLimits, size, before.map(Value::Unsigned), Some(Value::Unsigned(after)))
    };
    let expected = [noted("4MB", None, 3), noted("1GB", Some(2), 4)];
    assert_eq!(applied.changes.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn of_hooks_it_is_noted_which_were_added() {
    let hook = Hook { path: "/bin/x".to_owned(), ..Hook::default() };
    let hooks = Hooks { poststop: vec![hook], ..Hooks::default() };
    let reply = adjusting(|adjustment| adjustment.hooks = Some(hooks.clone()));
    check(container(), vec![reply], &[changed(Field::OciHooks, "", None, Some(hooks.into()))]);
}

#[test]
fn arguments_are_noted_as_a_whole() {
    let reply = |args| adjusting(|adjustment| adjustment.args = args);
    let list = |arg: &str| Some(Value::Texts(vec![arg.to_owned()]));
    let replies = vec![reply(Args::set(["x"]).unwrap()), reply(Args::replace(["y"]))];
    check(container(), replies, &[changed(Field::Args, "", list("x"), list("y"))]);
}

#[test]
fn parts_of_rdt_are_noted_as_they_are_shown() {
    let reply = |rdt| adjusting_linux(|linux| linux.rdt = Some(rdt));
    let set = Rdt { clos_id: Some("x".to_owned()), enable_monitoring: Some(true), ..Rdt::default() };
    let remove = Rdt { remove: true, clos_id: Some("y".to_owned()), ..Rdt::default() };
    check(
        container(),
        vec![reply(set), reply(remove)],
        &[
            changed(Field::RdtClosID, "", text("x"), text("y")),
            changed(Field::RdtEnableMonitoring, "", Some(Value::Flag(true)), None),
        ],
    );
}

#[test]
fn a_change_of_another_container_names_it() {
    let pids = Some(Pids { limit: 7, ..Pids::default() });
    let updates = vec![Update::new("other", Resources { pids, ..Resources::default() })];
    let applied = StopMerge::new().apply(&id("10-a"), StopReply { updates, ..StopReply::default() }).unwrap();

    let expected = changed(Field::PidsLimit, "", None, Some(Value::Signed(7)));
    assert!(applied.changes.iter().eq([Changed { container: Some("other".to_owned()), ..expected }]));
    assert!(!applied.view_changed());
}

#[test]
fn the_removal_of_what_is_not_there_is_noted_and_shows_nothing_new() {
    let mut merge = CreateMerge::new(container());
    let applied = merge.apply(&id("10-a"), Annotations.reply("-A")).unwrap();
    assert!(applied.changes.iter().eq([changed(Field::Annotations, "A", None, None)]));
    assert!(!applied.view_changed());
}

#[test]
fn of_what_the_runtime_made_fields_that_nobody_knows_are_not_noted() {
    let mut message = api::Mount { destination: "A".to_owned(), ..api::Mount::default() };
    message.special_fields.mut_unknown_fields().add_length_delimited(99, vec![0; 1 << 20]);
    let mut original = container();
    original.mounts = vec![message.into()];
    let mount = Mount { destination: "A".to_owned(), ..Mount::default() };
    check(original, vec![Mounts.reply("-A")], &[changed(Field::Mounts, "A", Some(mount.into()), None)]);
}

proptest! {
    #[test]
    fn notes_that_are_cut_in_halves_are_all_there(texts in vec(".{0,60}", 0..20)) {
        let notes: Vec<_> = texts.iter().map(|key| changed(Field::Env, key, None, text(key))).collect();
        let changes: Changes = notes.iter().cloned().collect();
        let bytes = changes.parts().first().map(change_log::ViewChanges::bytes).unwrap_or_default();
        let (earlier, later) = packing::halves(bytes);
        let n_changes = [earlier, later].map(packing::count);
        prop_assert_eq!(n_changes, [notes.len().div_ceil(2), notes.len() / 2]);
        prop_assert!(packing::unpack(earlier).chain(packing::unpack(later)).eq(notes));
    }
}
