use nri_proto::Args;

use super::*;

/// Returns a reply that sets (`app x`) or replaces (`! app x`) the arguments.
fn reply(script: &str) -> CreateReply {
    let words: Vec<&str> = script.split_whitespace().collect();
    let args = match words.split_first() {
        Some((&"!", list)) => Args::replace(list.iter().copied()),
        _ => Args::set(words).unwrap(),
    };
    adjusting(|adjustment| adjustment.args = args)
}

fn check(replies: &[(&'static str, &str)], expected: Result<(&str, &str), &str>) {
    let mut original = container();
    original.args = vec!["original".to_owned()];
    let (merge, refused) = create(original, replies.iter().map(|&(plugin, script)| (plugin, reply(script))));
    let shown = merge.view().args.join(" ");
    let result = match merge.finish().adjustment.args.change() {
        Some(change) => change.into_value().unwrap_or_default().join(" "),
        None => String::new(),
    };
    match expected {
        Ok((in_result, in_view)) => {
            assert_eq!((refused, &*result, &*shown), (Ok(()), in_result, in_view));
        }
        Err(text) => assert_eq!(refused, Err(text.to_owned())),
    }
}

#[test]
fn arguments_are_set_as_a_whole() {
    check(&[("10-a", "nice app")], Ok(("nice app", "nice app")));
}

#[test]
fn two_plugins_cannot_set_the_arguments() {
    check(&[("10-a", "x"), ("20-b", "y")], Err(r#"plugins "20-b" and "10-a" both tried to set Args "#));
}

#[test]
fn a_later_plugin_may_replace_the_arguments() {
    check(&[("10-a", "x"), ("20-b", "! x y")], Ok(("x y", "x y")));
    check(
        &[("10-a", "x"), ("20-b", "! y"), ("30-c", "z")],
        Err(r#"plugins "30-c" and "20-b" both tried to set Args "#),
    );
}

#[test]
fn a_replacement_by_nothing_undoes_what_was_set() {
    check(&[("10-a", "x"), ("20-b", "!")], Ok(("", "")));
    check(&[("10-a", "!"), ("20-b", "x")], Err(r#"plugins "20-b" and "10-a" both tried to set Args "#));
}

#[test]
fn a_result_says_the_arguments_and_no_longer_that_they_replace_others() {
    let merged = merged(container(), [("10-a", reply("! x"))]);
    assert_eq!(merged.adjustment.args, Args::set(["x"]).unwrap());
}
