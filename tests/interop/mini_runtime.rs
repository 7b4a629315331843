//! A runtime on our crates alone, with runc: plugins on Go's stub change its containers, and the
//! changes are real.
//!
//! The tests need root, runc and a static busybox. Without these, they report that and pass, unless
//! `NRI_REQUIRE_RUNC` is set.

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{env, fs, io, thread};

use nri_tests::go;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::{Duration, sleep, timeout};

use crate::peer::PATIENCE;
use crate::program::Program;
use crate::sdk::examples::example;

const CGROUPS: &str = "/sys/fs/cgroup";

/// The directory of a runtime: a root file system, and a place for its socket.
struct Host(tempfile::TempDir);

impl Host {
    /// Creates the directory, or reports why that is not possible.
    fn new() -> Option<Self> {
        let reason = match program("busybox") {
            _ if !nix::unistd::geteuid().is_root() => "it takes root",
            _ if program("runc").is_none() => "there is no runc, see scripts/setup",
            None => "there is no busybox, see scripts/setup",
            Some(busybox) => return Some(Self::with(&busybox)),
        };
        assert!(env::var_os("NRI_REQUIRE_RUNC").is_none(), "{reason}");
        let _ = writeln!(io::stderr(), "skipped: {}: {reason}", thread::current().name().unwrap_or("a test"));
        None
    }

    fn with(busybox: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let rootfs = directory.path().join("rootfs");
        for folder in ["bin", "proc", "dev", "tmp", "data"] {
            fs::create_dir_all(rootfs.join(folder)).unwrap();
        }
        fs::copy(busybox, rootfs.join("bin/busybox")).unwrap();
        for applet in ["sh", "cat", "env", "sleep"] {
            symlink("busybox", rootfs.join("bin").join(applet)).unwrap();
        }
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Starts the runtime with a pod of containers, which run at once.
    fn run(&self, containers: &Value) -> Program {
        Program::start(self.command(containers))
    }

    fn command(&self, containers: &Value) -> Command {
        let pod = json!({"name": "mini", "namespace": "shop", "containers": containers});
        fs::write(self.path("pod.json"), pod.to_string()).unwrap();
        let mut command = Command::new(example("mini-runtime"));
        command.arg(self.path("pod.json")).arg(self.path("rootfs")).arg("--socket").arg(self.path("nri.sock"));
        // The plugins that are installed on this machine are not used.
        command.arg("--plugins").arg(self.path("none")).env("TMPDIR", self.0.path());
        command
    }

    /// Starts the runtime, and returns once a plugin has joined.
    async fn start(&self, containers: Value) -> Program {
        self.start_with(containers, &[]).await
    }

    async fn start_with(&self, containers: Value, args: &[&str]) -> Program {
        let mut command = self.command(&containers);
        command.args(["--wait", "1"]).args(args);
        let runtime = Program::start(command);
        timeout(PATIENCE, async {
            while !self.path("nri.sock").exists() {
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("it does not listen");
        runtime
    }

    fn plugin(&self, plugin: &Path, args: &[&str]) -> Program {
        let mut command = Command::new(plugin);
        command.arg("-socket").arg(self.path("nri.sock")).args(args);
        Program::start(command)
    }
}

/// Removes the containers of a runtime that was killed because a test failed.
impl Drop for Host {
    fn drop(&mut self) {
        let inside = |dir: &Path| fs::read_dir(dir).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        let left: Vec<PathBuf> = inside(self.0.path()).filter(|dir| dir.join("state").exists()).collect();
        for state in left.iter().map(|dir| dir.join("state")) {
            for container in inside(&state) {
                let mut command = std::process::Command::new("runc");
                let id = container.file_name().unwrap_or_default();
                _ = command.arg("--root").arg(&state).args(["delete", "--force"]).arg(id).status();
            }
        }
        assert!(thread::panicking() || left.is_empty(), "something is left: {left:?}");
    }
}

fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(name)).find(|program| program.is_file())
}

/// Returns the next line that has this value.
async fn line(program: &mut Program, key: &str, value: &str) -> Value {
    loop {
        let line = program.wrote().await.unwrap_or_else(|| panic!("it ended before it said {key} {value}"));
        if line[key] == value {
            return line;
        }
    }
}

/// Returns the output of the container among the lines of the runtime.
fn said(lines: &[Value]) -> Vec<&str> {
    lines.iter().filter_map(|line| line["said"].as_str()).collect()
}

#[tokio::test]
async fn a_go_plugin_changes_a_real_container_and_the_change_is_seen_inside() {
    let Ok(stub) = go::program("stubplugin") else { return };
    let Some(host) = Host::new() else { return };
    fs::create_dir(host.path("from")).unwrap();
    fs::write(host.path("from/file"), "mounted\n").unwrap();
    let script = "echo NRI=$NRI GONE=$GONE; cat /data/file; ulimit -n; exit 3";
    let container = json!({"name": "app", "args": ["sh", "-c", script], "env": ["GONE=1"]});
    let mut runtime = host.start(json!([container])).await;
    let mount = format!("mount=/data={}", host.path("from").display());
    let changes = ["env=NRI=yes", "env=-GONE", &mount, "rlimit=RLIMIT_NOFILE=123", "annotation=color=red"];
    let args: Vec<&str> = changes.iter().flat_map(|change| ["-adjust", change]).chain(["-show"]).collect();
    let mut plugin = host.plugin(&stub, &args);

    let lines = runtime.wrote_last().await;
    assert_eq!(said(&lines), ["NRI=yes GONE=", "mounted", "123"]);
    let ended = lines.iter().find(|line| line["state"] == "stopped").unwrap();
    assert_eq!((&ended["exit_code"], &ended["reason"]), (&json!(3), &json!("Error")));
    assert!(runtime.ended().await.unwrap().success());

    let heard: Vec<Value> = plugin.wrote_last().await;
    let events: Vec<&str> = heard.iter().filter_map(|line| line["heard"].as_str()).skip(2).collect();
    let expected = [
        "RunPodSandbox",
        "CreateContainer",
        "PostCreateContainer",
        "StartContainer",
        "StopContainer",
        "StopPodSandbox",
        "RemoveContainer",
        "RemovePodSandbox",
        "Shutdown",
    ];
    // If a container ends at once, its PostStartContainer comes before its end, or not at all.
    let must = |event: &&str| !matches!(*event, "PostStartContainer" | "Closed");
    assert_eq!(events.into_iter().filter(must).collect::<Vec<_>>(), expected);
    // The plugin sees its own changes.
    let start = heard.iter().find(|line| line["heard"] == "StartContainer").unwrap();
    assert_eq!(start["annotations"], json!({"color": "red"}));
    assert!(start["env"].as_array().unwrap().contains(&json!("NRI=yes")), "{start}");
}

#[tokio::test]
async fn an_update_and_an_eviction_of_a_go_plugin_act_on_the_real_container() {
    let Ok(stub) = go::program("stubplugin") else { return };
    let Some(host) = Host::new() else { return };
    let container = json!({"name": "app", "args": ["sleep", "600"], "memory_limit": 64 << 20});
    let mut runtime = host.start(json!([container])).await;
    let mut plugin = host.plugin(&stub, &[]);
    let id = line(&mut runtime, "state", "created").await["container"].as_str().unwrap().to_owned();
    line(&mut runtime, "state", "running").await;
    let pod = id.strip_suffix("-app").unwrap();

    plugin.obey(&format!("update {id} nobody")).await;
    let answer = loop {
        let line = plugin.wrote().await.unwrap();
        if !line["updated"].is_null() {
            break line;
        }
    };
    let error = "rpc error: code = Unknown desc = an update failed: nobody: there is no such container";
    assert_eq!(answer["error"], json!(error));
    let shares = Path::new(CGROUPS).join(format!("cpu/{pod}/{id}/cpu.shares"));
    if Path::new(CGROUPS).join("cpu").exists() {
        assert_eq!(fs::read_to_string(&shares).unwrap().trim(), "123");
        let limit = Path::new(CGROUPS).join(format!("memory/{pod}/{id}/memory.limit_in_bytes"));
        assert_eq!(fs::read_to_string(limit).unwrap().trim(), (64 << 20).to_string());
    } else {
        let _ = writeln!(io::stderr(), "skipped: cgroups of version 1 are looked into, and this is version 2");
    }

    plugin.obey(&format!("evict {id}")).await;
    let ended = line(&mut runtime, "state", "stopped").await;
    assert_eq!((&ended["container"], &ended["exit_code"]), (&json!(id), &json!(137)));
    line(&mut runtime, "state", "removed").await;
    assert!(runtime.ended().await.unwrap().success());
    assert!(!shares.exists(), "the cgroup is left");
    line(&mut plugin, "heard", "RemovePodSandbox").await;
}

#[tokio::test]
async fn a_container_that_a_go_plugin_refuses_is_not_made_and_nothing_is_left() {
    let Ok(stub) = go::program("stubplugin") else { return };
    let Some(host) = Host::new() else { return };
    let containers = json!([{"name": "app", "args": ["sleep", "600"]}]);
    let mut runtime = host.start(containers).await;
    let mut plugin = host.plugin(&stub, &["-refuse", "CreateContainer"]);
    let lines = runtime.wrote_last().await;
    assert!(lines.iter().all(|line| line["state"] != "created"), "{lines:?}");
    assert!(!runtime.ended().await.unwrap().success());
    line(&mut plugin, "heard", "RemovePodSandbox").await;
}

#[tokio::test]
async fn a_go_plugin_changes_a_setting_of_a_runtime_only_where_it_is_allowed_by_name() {
    let Ok(stub) = go::program("stubplugin") else { return };
    for (key, allowed, runs) in [
        ("run.oci.keep_original_groups", &[][..], false),
        ("run.oci.keep_original_groups", &["--allow-annotation", "run.oci.*"], true),
        ("org.systemd.property.ExecStartPre", &["--allow-annotation", "run.oci.*"], false),
        ("cdi.k8s.io/vendor", &[], false),
        ("vendor.nri.io/seen", &[], true),
    ] {
        let Some(host) = Host::new() else { return };
        let containers = json!([{"name": "app", "args": ["sh", "-c", "echo runs"]}]);
        let mut runtime = host.start_with(containers, allowed).await;
        let _plugin = host.plugin(&stub, &["-adjust", &format!("annotation={key}=1")]);
        let lines = runtime.wrote_last().await;
        let expected: &[&str] = if runs { &["runs"] } else { &[] };
        assert_eq!(said(&lines), expected, "{key} {allowed:?}");
        assert_eq!(lines.iter().any(|line| line["state"] == "created"), runs, "{key} {allowed:?}");
        assert_eq!(runtime.ended().await.unwrap().success(), runs, "{key} {allowed:?}");
    }
}

#[tokio::test]
async fn a_class_that_nobody_knows_is_told_as_ignored_and_the_container_runs() {
    let Ok(stub) = go::program("stubplugin") else { return };
    let Some(host) = Host::new() else { return };
    let mut runtime = host.start(json!([{"name": "app", "args": ["sh", "-c", "echo hello"]}])).await;
    let _plugin = host.plugin(&stub, &["-adjust", "blockio=gold"]);
    let lines = runtime.wrote_last().await;
    let ignored: Vec<&Value> =
        lines.iter().filter(|line| !line["ignored"].is_null()).map(|it| &it["ignored"]).collect();
    assert_eq!((ignored, said(&lines)), (vec![&json!(["BlockioClass"])], vec!["hello"]));
    assert!(runtime.ended().await.unwrap().success());
}

#[tokio::test]
async fn what_a_container_says_is_passed_on_whatever_it_is_and_how_much() {
    let Some(host) = Host::new() else { return };
    let script =
        r"printf 'no text: \377\n'; i=0; while [ $i -lt 20000 ]; do printf 0123456789; i=$((i+1)); done; exit 7";
    let mut runtime = host.run(&json!([{"name": "app", "args": ["sh", "-c", script]}]));
    let lines = runtime.wrote_last().await;
    let said = said(&lines);
    assert_eq!(said[0], "no text: \u{fffd}");
    assert_eq!(said[1..].concat(), "0123456789".repeat(20_000));
    assert_eq!(lines.iter().find(|line| line["state"] == "stopped").unwrap()["exit_code"], 7);
    assert!(runtime.ended().await.unwrap().success());
}

#[tokio::test]
async fn a_container_that_cannot_be_removed_keeps_no_other_from_it() {
    let Some(host) = Host::new() else { return };
    let sleeper = |name: &str| json!({"name": name, "args": ["sleep", "600"]});
    let mut runtime = host.run(&json!([sleeper("one"), sleeper("two")]));
    let first = line(&mut runtime, "state", "created").await["container"].as_str().unwrap().to_owned();
    line(&mut runtime, "state", "created").await;
    line(&mut runtime, "state", "running").await;
    let pod = first.strip_suffix("-one").unwrap();

    // runc's state of the first container is destroyed, so that runc can neither stop nor delete
    // it.
    let inside = fs::read_dir(host.0.path()).unwrap().map(|entry| entry.unwrap().path());
    let directory = inside.into_iter().find(|path| path.join("state").exists()).unwrap();
    let pid: i32 = fs::read_to_string(directory.join(&first).join("pid")).unwrap().trim().parse().unwrap();
    fs::write(directory.join("state").join(&first).join("state.json"), "{").unwrap();
    let left = LeftOver { pid, pod: pod.to_owned(), container: first.clone() };
    runtime.signal(nix::sys::signal::Signal::SIGTERM);

    let stopped = line(&mut runtime, "state", "stopped").await;
    assert_eq!(stopped["container"], json!(format!("{pod}-two")));
    runtime.wrote_last().await;
    assert!(!runtime.ended().await.unwrap().success(), "it says that something is left");
    let second = Path::new(CGROUPS).join(format!("memory/{pod}/{pod}-two"));
    assert!(!second.exists(), "the cgroup of the second is left");
    drop(left);
}

/// A container that the test ends.
struct LeftOver {
    pid: i32,
    pod: String,
    container: String,
}

impl Drop for LeftOver {
    fn drop(&mut self) {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid), nix::sys::signal::Signal::SIGKILL);
        let hierarchies = || fs::read_dir(CGROUPS).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        for hierarchy in hierarchies().chain([PathBuf::from(CGROUPS)]) {
            let pod = hierarchy.join(&self.pod);
            // Processes leave the cgroup a moment after they were killed.
            for _ in 0..100 {
                if fs::remove_dir(pod.join(&self.container)).is_ok() || !pod.join(&self.container).exists() {
                    break;
                }
                thread::sleep(Duration::from_millis(10));
            }
            let _ = fs::remove_dir(pod);
        }
    }
}
