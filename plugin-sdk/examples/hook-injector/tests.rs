use std::fs;
use std::path::Path;

use nri_plugin::testing::{Node, container, pod};
use nri_plugin::{Container, Hooks, Mount, Pod, chain};

use super::{Directories, HookInjector};

const ALWAYS: &str = r#"{"version": "1.0.0", "hook": {"path": "/bin/always", "args": ["always", "x"], "env": ["A=1"], "timeout": 3},
    "when": {"always": true}, "stages": ["prestart", "poststop"]}"#;

fn injector(folders: &[&Path]) -> HookInjector {
    let list = std::env::join_paths(folders).unwrap();
    HookInjector { directories: Directories::from_list(list.to_str().unwrap()), read: None }
}

async fn hooks(injector: HookInjector, pod: &Pod, container: &Container) -> Result<Option<Hooks>, String> {
    let node = Node::new();
    node.join("10-hook-injector", injector).await.unwrap();
    let created = node.create(pod, container).await.map_err(|error| chain(&error))?;
    Ok(created.adjustment.hooks.filter(|hooks| *hooks != Hooks::default()))
}

/// Returns whether a hook with this `when` applies to a container.
async fn is_for(when: &str, change: impl FnOnce(&mut Pod, &mut Container)) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let text =
        format!(r#"{{"version": "1.0.0", "hook": {{"path": "/bin/h"}}, "when": {when}, "stages": ["poststart"]}}"#);
    fs::write(folder.path().join("hook.json"), text).unwrap();
    let mut pod = pod("web");
    let mut container = Container { args: vec!["/bin/sh".to_owned()], ..container("app", &pod) };
    change(&mut pod, &mut container);
    hooks(injector(&[folder.path()]), &pod, &container).await.unwrap().is_some()
}

#[tokio::test]
async fn a_hook_is_injected_at_each_of_its_stages() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("always.json"), ALWAYS).unwrap();
    fs::write(folder.path().join("readme.txt"), "not a hook").unwrap();
    let pod = pod("web");
    let hooks = hooks(injector(&[folder.path()]), &pod, &container("app", &pod)).await.unwrap().unwrap();
    assert_eq!(hooks.prestart, hooks.poststop);
    let hook = &hooks.prestart[0];
    assert_eq!((&*hook.path, &hook.args[..]), ("/bin/always", &["always".to_owned(), "x".to_owned()][..]));
    assert_eq!((&hook.env[..], hook.timeout), (&["A=1".to_owned()][..], Some(3)));
    assert!(hooks.create_runtime.is_empty());
}

#[tokio::test]
async fn a_hook_is_for_containers_that_are_all_it_asks_for() {
    assert!(is_for(r#"{"always": true}"#, |_, _| {}).await);
    assert!(!is_for(r#"{"always": false}"#, |_, _| {}).await);
    assert!(!is_for("{}", |_, _| {}).await);
    assert!(is_for(r#"{"commands": ["^/bin/.*sh$"]}"#, |_, _| {}).await);
    assert!(!is_for(r#"{"commands": ["^/usr/"]}"#, |_, _| {}).await);
    let annotated = r#"{"annotations": {"^example\\.org/hook$": "^yes$"}}"#;
    let annotate = |value: &'static str| {
        move |pod: &mut Pod, _: &mut Container| {
            pod.annotations.insert("example.org/hook".to_owned(), value.to_owned());
        }
    };
    assert!(is_for(annotated, annotate("yes")).await);
    assert!(!is_for(annotated, annotate("no")).await);
    assert!(!is_for(annotated, |_, _| {}).await);
    let mounted = |_: &mut Pod, container: &mut Container| container.mounts.push(Mount::bind("/a", "/b", ["ro"]));
    assert!(is_for(r#"{"hasBindMounts": true}"#, mounted).await);
    assert!(!is_for(r#"{"hasBindMounts": true}"#, |_, _| {}).await);
    assert!(!is_for(r#"{"hasBindMounts": true, "commands": ["nope"]}"#, mounted).await);
}

#[tokio::test]
async fn a_file_in_a_later_directory_hides_one_of_the_same_name() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(first.path().join("hook.json"), ALWAYS).unwrap();
    fs::write(second.path().join("hook.json"), ALWAYS.replace("/bin/always", "/bin/other")).unwrap();
    let pod = pod("web");
    let injector = injector(&[first.path(), second.path(), Path::new("/nowhere")]);
    let hooks = hooks(injector, &pod, &container("app", &pod)).await.unwrap().unwrap();
    assert_eq!(hooks.prestart.len(), 1);
    assert_eq!(hooks.prestart[0].path, "/bin/other");
}

#[tokio::test]
async fn hooks_that_come_later_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let (node, pod) = (Node::new(), pod("web"));
    node.join("10-hook-injector", injector(&[folder.path()])).await.unwrap();
    let has_hooks = async |name: &str| {
        let created = node.create(&pod, &container(name, &pod)).await.unwrap();
        created.adjustment.hooks.is_some_and(|hooks| !hooks.prestart.is_empty())
    };
    assert!(!has_hooks("before").await);
    fs::write(folder.path().join("broken.json"), "{").unwrap();
    fs::write(folder.path().join("hook.json"), ALWAYS).unwrap();
    assert!(has_hooks("after").await, "also beside a file that is broken");
}

#[test]
fn a_file_that_is_no_hook_is_one_sentence_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hook.json");
    for (text, expected) in [
        ("{", "EOF while parsing an object"),
        (&*ALWAYS.replace("1.0.0", "9"), "unknown version \"9\", only 1.0.0 is supported"),
        (&*ALWAYS.replace("/bin/always", "always"), "hook.path \"always\" is not absolute"),
        (&*ALWAYS.replace(r#""prestart", "poststop""#, ""), "the hook has no stages"),
        (&*ALWAYS.replace("prestart", "sometime"), "unknown variant `sometime`"),
        (&*ALWAYS.replace(r#""always": true"#, r#""commands": ["["]"#), "\"[\" is not a valid pattern: "),
    ] {
        fs::write(&file, text).unwrap();
        let error = injector(&[folder.path()]).directories.read().unwrap_err().to_string();
        let prefix = format!("could not read the hook {}: {expected}", file.display());
        assert!(error.starts_with(&prefix), "{error}");
    }
}
