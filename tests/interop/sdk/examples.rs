//! The examples of the SDK behave under Go's runtimes as upstream's plugins of the same names do.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nri_proto::Event;
use serde_json::{Value, json};

use super::under_every_runtime;
use crate::program::Program;
use crate::sdk::host::{GoRuntime, Host};
use crate::stubs::Version;

under_every_runtime! {
    the_examples_adjust_containers_as_annotations_say,
    the_logger_writes_down_a_whole_life,
    the_examples_can_be_launched,
}

/// Returns the path of an example of the SDK. Examples are built with the tests of the workspace.
pub(crate) fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let example = test.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    assert!(example.exists(), "there is no {}: build the examples", example.display());
    example
}

/// Starts an example on the socket of the host, and waits until it has joined.
async fn join(host: &Host, runtime: &mut GoRuntime, index: &str, name: &str, args: &[&str]) -> Program {
    let plugin = host.plugin(&example(name), &[&["--idx", index], args].concat());
    runtime.joined(&format!("{index}-{name}")).await;
    plugin
}

/// Returns a request for a container `app` in a pod with these annotations.
fn request(annotations: Value) -> Value {
    let pod = json!({"id": "p", "name": "p", "annotations": annotations});
    json!({"pod": pod, "container": {"id": "c", "name": "app", "pod_sandbox_id": "p", "args": ["/bin/app"]}})
}

const DEVICE: &str = "[{path: /dev/fuse, type: c, major: 10, minor: 229}]";
const MOUNT: &str = "[{source: /srv, destination: /data, type: bind, options: [bind, ro]}]";
const LIMITS: &str = "[{type: memlock, soft: 1000, hard: 2000}]";

async fn the_examples_adjust_containers_as_annotations_say(host: Host) {
    let hooks = host.path("hooks");
    fs::create_dir(&hooks).unwrap();
    let hook = json!({
        "version": "1.0.0", "hook": {"path": "/bin/hook", "args": ["hook", "arg"]},
        "when": {"always": true}, "stages": ["prestart"],
    });
    fs::write(hooks.join("hook.json"), hook.to_string()).unwrap();
    let mut runtime = host.start(&[]).await;
    let _first = join(&host, &mut runtime, "10", "ulimit-adjuster", &[]).await;
    let _second = join(&host, &mut runtime, "20", "device-injector", &[]).await;
    let _third = join(&host, &mut runtime, "30", "hook-injector", &["--hooks-dir", hooks.to_str().unwrap()]).await;
    let annotations = json!({
        "ulimits.noderesource.dev/container.app": LIMITS,
        "devices.noderesource.dev/container.app": DEVICE,
        "mounts.noderesource.dev/pod": MOUNT,
    });
    let reply = runtime.ask(Event::CreateContainer, request(annotations)).await.unwrap();
    let adjust = &reply["adjust"];
    let device = json!([{"path": "/dev/fuse", "type": "c", "major": "10", "minor": "229"}]);
    assert_eq!(adjust["linux"]["devices"], device);
    let mount = json!([{"source": "/srv", "destination": "/data", "type": "bind", "options": ["bind", "ro"]}]);
    assert_eq!(adjust["mounts"], mount);
    assert_eq!(adjust["hooks"]["prestart"], json!([{"path": "/bin/hook", "args": ["hook", "arg"]}]));
    if host.version >= Version::V0_6_1 {
        let limits = json!([{"type": "RLIMIT_MEMLOCK", "soft": "1000", "hard": "2000"}]);
        assert_eq!(adjust["rlimits"], limits);
    }

    let wrong = json!({"devices.noderesource.dev/container.app": "no list"});
    let error = runtime.ask(Event::CreateContainer, request(wrong)).await.unwrap_err();
    assert!(error.contains("devices.noderesource.dev/container.app"), "{error}");
    runtime.stop().await;
}

async fn the_logger_writes_down_a_whole_life(host: Host) {
    let mut runtime = host.start(&[]).await;
    let log = host.path("log");
    let args = ["--add-env", "SEEN", "--log-file", log.to_str().unwrap()];
    let _plugin = join(&host, &mut runtime, "10", "logger", &args).await;
    for event in host.version.life() {
        let reply = runtime.tell(event).await.unwrap();
        if event == Event::CreateContainer {
            assert_eq!(reply["adjust"]["env"][0]["key"], "SEEN");
        }
    }
    is_in_order(&fs::read_to_string(log).unwrap(), host.version.life().map(Event::rpc));
    runtime.stop().await;
}

fn is_in_order<'a>(text: &str, words: impl Iterator<Item = &'a str>) {
    let mut rest = text;
    for word in words {
        let place = rest.find(word).unwrap_or_else(|| panic!("{word} is not where it should be in {text}"));
        rest = &rest[place + word.len()..];
    }
}

async fn the_examples_can_be_launched(host: Host) {
    let (plugins, configs, log) = (host.path("plugins"), host.path("configs"), host.path("log"));
    fs::create_dir(&plugins).unwrap();
    fs::create_dir(&configs).unwrap();
    for name in ["10-logger", "20-ulimit-adjuster", "30-device-injector", "40-hook-injector"] {
        symlink(example(&name[3..]), plugins.join(name)).unwrap();
    }
    fs::write(configs.join("10-logger.conf"), format!("logFile: {}\naddEnv: SEEN\n", log.display())).unwrap();
    let args = ["-plugins", plugins.to_str().unwrap(), "-configs", configs.to_str().unwrap()];
    let mut runtime = host.start(&args).await;
    let annotations = json!({"devices.noderesource.dev/container.app": DEVICE});
    let reply = runtime.ask(Event::CreateContainer, request(annotations)).await.unwrap();
    assert_eq!(reply["adjust"]["env"][0]["key"], "SEEN");
    assert_eq!(reply["adjust"]["linux"]["devices"][0]["path"], "/dev/fuse");
    is_in_order(&fs::read_to_string(log).unwrap(), ["CreateContainer", "devices.noderesource.dev"].into_iter());
    runtime.stop().await;
}
