use std::sync::Arc;

use nri_plugin::testing::{Node, container, pod};
use nri_plugin::{Change, Options, chain};

use super::*;

fn logger(args: &[&str]) -> Logger {
    let program =
        Program::new("logger", "").flag("events", "", "").flag("add-env", "", "").flag("set-annotation", "", "");
    let settings = Settings::given(&program.parse(args).unwrap()).unwrap();
    Logger { settings: Mutex::new(settings), output: Output::default() }
}

#[tokio::test]
async fn containers_are_marked_as_the_flags_say() {
    let (node, pod) = (Node::new(), pod("web"));
    node.join("10-logger", logger(&["-add-env", "SEEN", "-set-annotation", "seen"])).await.unwrap();
    let created = node.create(&pod, &container("app", &pod)).await.unwrap();
    let mark = format!("logger-pid-{}", std::process::id());
    assert_eq!(created.adjustment.env.get("SEEN").unwrap().value().unwrap().value, mark);
    assert_eq!(created.adjustment.annotations.get("seen").and_then(Change::into_value), Some(&mark));
}

#[tokio::test]
async fn the_configuration_changes_what_the_flags_say() {
    let node = Node::new();
    let config = "events: [CreateContainer, \"stopcontainer\"]\naddEnv: OTHER\n";
    let options = Options { config: Some(config.to_owned()), ..Options::default() };
    let plugin = Arc::new(logger(&["-events", "all", "-add-env", "SEEN"]));
    node.join_with("10-logger", plugin, options).await.unwrap();
    let events = node.adaptation().plugins()[0].events;
    assert_eq!(events.to_string(), "CreateContainer,StopContainer");
    let pod = pod("web");
    let created = node.create(&pod, &container("app", &pod)).await.unwrap();
    let names: Vec<_> = created.adjustment.env.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["OTHER"]);
}

#[tokio::test]
async fn a_wrong_configuration_ends_the_logger_with_one_sentence() {
    for (config, expected) in [
        ("events: [Nope]", "failed to parse events: unknown event \"nope\""),
        ("events: {", "failed to parse provided configuration: "),
        ("events: CreateContainer", "failed to parse provided configuration: "),
        ("addEnv: [A]", "failed to parse provided configuration: "),
        ("events", "failed to parse provided configuration: "),
        ("logFile: /nowhere/log", "failed to open log file \"/nowhere/log\": No such file or directory (os error 2)"),
    ] {
        let options = Options { config: Some(config.to_owned()), ..Options::default() };
        let error = Node::new().join_with("10-logger", Arc::new(logger(&[])), options).await.unwrap_err();
        let prefix = format!("the plugin ended before it had joined: the plugin refused its configuration: {expected}");
        assert!(chain(&error).starts_with(&prefix), "{config}: {}", chain(&error));
    }
}

#[test]
fn a_wrong_event_is_one_sentence() {
    let program = Program::new("logger", "").flag("events", "", "");
    let error = Settings::given(&program.parse(["-events", "Nope"]).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "failed to parse events: unknown event \"nope\"");
}
