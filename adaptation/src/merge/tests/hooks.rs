use nri_proto::{Hook, Hooks};

use super::*;

fn hook(path: &str) -> Hook {
    Hook { path: path.to_owned(), ..Hook::default() }
}

fn all(path: &str) -> Hooks {
    Hooks {
        prestart: vec![hook(&format!("{path}-prestart"))],
        create_runtime: vec![hook(&format!("{path}-create-runtime"))],
        create_container: vec![hook(&format!("{path}-create-container"))],
        start_container: vec![hook(&format!("{path}-start-container"))],
        poststart: vec![hook(&format!("{path}-poststart"))],
        poststop: vec![hook(&format!("{path}-poststop"))],
        ..Hooks::default()
    }
}

fn reply(path: &str) -> CreateReply {
    adjusting(|adjustment| adjustment.hooks = Some(all(path)))
}

fn paths(hooks: Option<&Hooks>) -> String {
    let Hooks { prestart, create_runtime, create_container, start_container, poststart, poststop, unknown: _ } =
        hooks.unwrap();
    let all = [prestart, create_runtime, create_container, start_container, poststart, poststop];
    all.into_iter().flatten().map(|hook| &*hook.path).collect::<Vec<_>>().join(" ")
}

#[test]
fn hooks_are_added_in_the_order_of_plugins_and_never_in_conflict() {
    let mut original = container();
    original.hooks = Some(all("o"));
    let (merge, refused) = create(original, [("10-a", reply("a")), ("20-b", reply("b"))]);

    assert_eq!(refused, Ok(()));
    assert_eq!(
        paths(merge.view().hooks.as_ref()),
        "o-prestart a-prestart b-prestart \
         o-create-runtime a-create-runtime b-create-runtime \
         o-create-container a-create-container b-create-container \
         o-start-container a-start-container b-start-container \
         o-poststart a-poststart b-poststart \
         o-poststop a-poststop b-poststop"
    );
    assert_eq!(
        paths(merge.finish().adjustment.hooks.as_ref()),
        "a-prestart b-prestart \
         a-create-runtime b-create-runtime \
         a-create-container b-create-container \
         a-start-container b-start-container \
         a-poststart b-poststart \
         a-poststop b-poststop"
    );
}

#[test]
fn hooks_are_owned_by_all_plugins_that_add_any() {
    let none = adjusting(|adjustment| adjustment.hooks = Some(Hooks::default()));
    let merged = merged(container(), [("10-a", reply("a")), ("15-none", none), ("20-b", reply("b"))]);
    assert!(merged.owners.owner(NEW, Field::OciHooks, "").unwrap().plugins().eq(["10-a", "20-b"]));
}
