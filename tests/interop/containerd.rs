//! The examples under a real containerd: that of `tests/interop/daemons` which has the CRI, and so
//! has NRI.
//!
//! The tests need root and some seconds, so they run with `NRI_LONG` only. Where they cannot run,
//! they report that and pass, unless `NRI_REQUIRE_DAEMONS` is set.

mod daemon;
mod image;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::sdk::examples::example;
use daemon::{Containerd, until};

/// The limit that both containers of the pod are to have, as an annotation, and its name in
/// `/proc`.
const LIMIT: &str = r#"[{"type": "memlock", "soft": 32768, "hard": 65536}]"#;
const LIMIT_INSIDE: [&str; 5] = ["Max", "locked", "memory", "32768", "65536"];

#[test]
fn plugins_change_containers_under_containerd_and_survive_its_death() {
    let Some(mut containerd) = Containerd::start() else { return };
    let mut logger = Plugin::start(&containerd, "logger", &["--idx", "10"]);
    let mut adjuster = Plugin::start(&containerd, "ulimit-adjuster", &["--idx", "20"]);
    containerd.admits("10-logger");
    containerd.admits("20-ulimit-adjuster");

    let pod = run_pod(&containerd);
    assert_eq!(limit_inside(&containerd, &pod, "first"), LIMIT_INSIDE);
    logger.says(&["RunPodSandbox", "CreateContainer", "PostStartContainer", "first"]);

    containerd.kill();
    containerd.start_again();
    containerd.admits("10-logger");
    containerd.admits("20-ulimit-adjuster");
    assert_eq!(limit_inside(&containerd, &pod, "second"), LIMIT_INSIDE);
    logger.says(&["second"]);

    containerd.cri("StopPodSandbox", &json!({"pod_sandbox_id": pod}));
    containerd.cri("RemovePodSandbox", &json!({"pod_sandbox_id": pod}));
    logger.says(&["StopContainer", "StopPodSandbox", "RemovePodSandbox"]);
    logger.stop();
    adjuster.stop();
    containerd.nothing_is_left();
}

/// Returns the configuration of a pod in the network of the machine, because there is no other
/// network.
fn config(containerd: &Containerd) -> Value {
    let annotation = |container: &str| format!("ulimits.noderesource.dev/container.{container}");
    json!({
        "metadata": {"name": "pod", "namespace": "default", "uid": containerd.prefix},
        "log_directory": containerd.path("logs"),
        "annotations": {annotation("first"): LIMIT, annotation("second"): LIMIT},
        "linux": {
            "cgroup_parent": format!("/{}", containerd.prefix),
            "security_context": {"namespace_options": {"network": "NODE"}},
        },
    })
}

fn run_pod(containerd: &Containerd) -> String {
    let reply = containerd.cri("RunPodSandbox", &json!({"config": config(containerd)}));
    reply["podSandboxId"].as_str().unwrap().to_owned()
}

/// Runs a container that prints its limits, and returns the limit that a plugin sets.
fn limit_inside(containerd: &Containerd, pod: &str, name: &str) -> Vec<String> {
    let container = json!({"metadata": {"name": name}, "image": {"image": image::NAME}, "log_path": name});
    let request = json!({"pod_sandbox_id": pod, "config": container, "sandbox_config": config(containerd)});
    let reply = containerd.cri("CreateContainer", &request);
    containerd.cri("StartContainer", &json!({"container_id": reply["containerId"]}));
    let mut words = Vec::new();
    until("the container tells its limits", || {
        let text = fs::read_to_string(containerd.path("logs").join(name)).unwrap_or_default();
        // A line of such a log has a time, a stream, a mark for partial lines, and the text.
        let told = text.lines().map(|line| line.split_whitespace().skip(3).map(str::to_owned).collect::<Vec<_>>());
        words =
            told.into_iter().find(|words| words.starts_with(&["Max", "locked"].map(str::to_owned))).unwrap_or_default();
        !words.is_empty()
    });
    words.truncate(LIMIT_INSIDE.len());
    words
}

/// A running example. Dropping it kills the process.
struct Plugin {
    child: Child,
    said: std::path::PathBuf,
}

impl Plugin {
    fn start(containerd: &Containerd, name: &str, args: &[&str]) -> Self {
        let said = containerd.path(name);
        let out = File::create(&said).unwrap();
        let mut command = Command::new(example(name));
        command.args(args).arg("--socket").arg(containerd.path("nri.sock")).stdin(Stdio::null());
        let child = command.stdout(out.try_clone().unwrap()).stderr(out).spawn().unwrap();
        Self { child, said }
    }

    /// Waits until the output has all of these words.
    fn says(&self, words: &[&str]) {
        until(&format!("{words:?} is in {}", self.said.display()), || {
            let said = fs::read_to_string(&self.said).unwrap();
            words.iter().all(|word| said.contains(word))
        });
    }

    fn stop(&mut self) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{} has:\n{}", self.said.display(), read(&self.said));
        }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
