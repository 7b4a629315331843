//! Tests of the examples as processes, started by a user or launched by a runtime.

#![allow(clippy::unwrap_used, reason = "these are tests, and what they share")]

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use nri_plugin::testing::{Node, Snapshot, container, pod};
use nri_plugin::{Connection, Context, Event, EventMask, Mount, Options, Plugin, Pod, Refusal, Stream};

/// Returns the path of an example. Cargo builds the examples for this test.
fn example(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().unwrap().parent().unwrap().join("examples").join(name)
}

fn logger() -> Command {
    let mut command = Command::new(example("logger"));
    command.env_clear().stdin(Stdio::null());
    command
}

/// Runs a command to its end, and returns the exit code and stderr.
fn said(command: &mut Command) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(stdout.is_empty());
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[track_caller]
fn check(args: &[&str], expected: &str) {
    assert_eq!(said(logger().args(args)), (Some(1), format!("logger: {expected}\n")), "{args:?}");
}

#[test]
fn what_is_wrong_is_one_sentence_and_exit_code_1() {
    check(
        &["--idx", "1"],
        "could not register a plugin with index \"1\" and name \"logger\": invalid plugin index \"1\", must be 2 digits",
    );
    check(
        &["--idx", "10", "--name", "a b"],
        "could not register a plugin with index \"10\" and name \"a b\": \
         invalid plugin name \"a b\": contains invalid character ' '",
    );
    check(
        &["--idx", "10", "--socket", "/nowhere"],
        "could not connect to the runtime at /nowhere: No such file or directory (os error 2)",
    );
    check(&["--idx", "10", "--events", "nope"], "failed to parse events: unknown event \"nope\"");
    check(
        &["--idx", "10", "--config", "/nowhere"],
        "could not read the configuration /nowhere: No such file or directory (os error 2)",
    );
    check(&["--nope"], "unknown flag --nope; --help lists the flags");
}

#[test]
fn u19_a_plugin_that_was_launched_with_a_wrong_descriptor_ends_and_says_so() {
    let launched = |value: &str| said(logger().env("NRI_PLUGIN_IDX", "10").env("NRI_PLUGIN_SOCKET", value));
    let prefix = "logger: could not use the connection that the plugin was launched with: invalid socket";
    for (value, expected) in [
        ("-1", " in environment (NRI_PLUGIN_SOCKET=\"-1\"): not the number of a file descriptor\n"),
        ("99999", " (99999) in environment: Bad file descriptor (os error 9)\n"),
        ("0", " (0) in environment: not a connected unix socket\n"),
        ("three", " in environment (NRI_PLUGIN_SOCKET=\"three\"): not the number of a file descriptor\n"),
    ] {
        assert_eq!(launched(value), (Some(1), format!("{prefix}{expected}")));
    }
}

/// Waits for the end of a process, for at most 20 seconds.
async fn ended(child: &mut Child) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "the process does not end");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn terminate(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}

#[tokio::test]
async fn a_plugin_survives_the_restart_of_its_runtime_and_ends_well_when_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("nri.sock");
    let first = Node::listening(&socket, Snapshot::default()).unwrap();
    let mut child = logger().args(["-idx", "10", "-socket-path"]).arg(&socket).stderr(Stdio::null()).spawn().unwrap();
    soon(first.joined("10-logger")).await;
    first.stop().await;

    let second = Node::listening(&socket, Snapshot::default()).unwrap();
    soon(second.joined("10-logger")).await;
    terminate(&child);
    assert_eq!(ended(&mut child).await.code(), Some(0));
    second.stop().await;
}

#[tokio::test]
async fn a_plugin_that_is_launched_uses_what_it_inherits() {
    let node = Node::new();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut child = launch("ulimit-adjuster", theirs.into());
    ours.set_nonblocking(true).unwrap();
    let (reader, writer) = tokio::net::UnixStream::from_std(ours).unwrap().into_split();
    node.adaptation().attach(reader, writer);
    soon(node.joined("45-limits")).await;
    node.stop().await;
    assert_eq!(ended(&mut child).await.code(), Some(0), "it was told that the runtime goes away");
}

/// A plugin that starts a program, and writes the process id to the file named by the pod.
struct Parent;

#[async_trait]
impl Plugin for Parent {
    fn events(&self) -> EventMask {
        Event::RunPodSandbox.into()
    }

    async fn run_pod_sandbox(&self, _: &Context, pod: Pod) -> Result<(), Refusal> {
        let child = Command::new("/bin/sleep").arg("1000").spawn().map_err(Refusal::new)?;
        std::fs::write(pod.name, child.id().to_string()).map_err(Refusal::new)
    }
}

#[tokio::test]
#[ignore = "it is a plugin, which another test launches"]
async fn it_is_a_plugin_that_starts_programs() {
    nri_plugin::run(Parent, Options::default()).await.unwrap();
}

#[tokio::test]
#[ignore = "it is a plugin, which another test launches"]
async fn it_is_a_plugin_that_connects_in_its_own_way() {
    let path = PathBuf::from(std::env::var_os("OWN_SOCKET").unwrap());
    let connection = match std::env::var("OWN_WAY").unwrap().as_str() {
        "path" => Connection::Path(path),
        "stream" => Connection::Stream(Stream::on_unix(tokio::net::UnixStream::connect(path).await.unwrap())),
        _ => Connection::dial(move || {
            let path = path.clone();
            async move { Ok(Stream::on_unix(tokio::net::UnixStream::connect(path).await?)) }
        }),
    };
    nri_plugin::run(Parent, Options { connection, ..Options::default() }).await.unwrap();
}

/// Returns the file descriptors of a process, and their targets.
fn open_files(pid: u32) -> Vec<(String, String)> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().map(|entry| entry.unwrap());
    let shown = |file: std::fs::DirEntry| {
        let target = std::fs::read_link(file.path()).ok()?.display().to_string();
        Some((file.file_name().into_string().unwrap(), target))
    };
    files.filter_map(shown).collect()
}

const CLOSE_ON_EXEC: u32 = 0o2_000_000;

/// Returns the flags of a file descriptor of a process.
fn flags(pid: u32, number: &str) -> u32 {
    let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
    u32::from_str_radix(flags.trim(), 8).unwrap()
}

#[tokio::test]
async fn a_program_that_a_launched_plugin_starts_does_not_inherit_the_connection() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::new();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let inode = std::fs::File::from(theirs.try_clone().map(OwnedFd::from).unwrap()).metadata().unwrap().ino();
    let connection = format!("socket:[{inode}]");
    let words = ["it_is_a_plugin_that_starts_programs", "--exact", "--ignored", "--nocapture", "--test-threads=1"];
    let mut child = launched(std::env::current_exe().unwrap(), theirs.into()).args(words).spawn().unwrap();
    ours.set_nonblocking(true).unwrap();
    let (reader, writer) = tokio::net::UnixStream::from_std(ours).unwrap().into_split();
    node.adaptation().attach(reader, writer);
    soon(node.joined("45-limits")).await;

    // All descriptors of the connection in the plugin are close-on-exec.
    let connections = open_files(child.id()).into_iter().filter(|(_, target)| *target == connection);
    let flags: Vec<_> = connections.map(|(number, _)| flags(child.id(), &number)).collect();
    assert!(!flags.is_empty() && flags.iter().all(|flags| flags & CLOSE_ON_EXEC != 0), "{flags:?}");

    let mut pod = pod("parent");
    pod.name = folder.path().join("pid").display().to_string();
    node.run_pod(&pod).await.unwrap();
    let program = std::fs::read_to_string(&pod.name).unwrap().parse().unwrap();
    let inherited = open_files(program);
    let pid = rustix::process::Pid::from_raw(program.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert!(inherited.contains(&("0".to_owned(), "/dev/null".to_owned())), "{inherited:?}");
    assert!(inherited.iter().all(|(_, target)| *target != connection), "{inherited:?}");
    node.stop().await;
    assert_eq!(ended(&mut child).await.code(), Some(0));
}

#[tokio::test]
async fn a_launched_plugin_that_connects_in_another_way_keeps_no_connection_that_it_inherits() {
    for way in ["path", "stream", "dial"] {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("nri.sock");
        let node = Node::listening(&socket, Snapshot::default()).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let inode = std::fs::File::from(theirs.try_clone().map(OwnedFd::from).unwrap()).metadata().unwrap().ino();
        let words = ["it_is_a_plugin_that_connects_in_its_own_way", "--exact", "--ignored", "--test-threads=1"];
        let mut child = launched(std::env::current_exe().unwrap(), theirs.into())
            .args(words)
            .envs([("OWN_SOCKET", socket.as_os_str()), ("OWN_WAY", way.as_ref())])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        soon(node.joined("45-limits")).await;
        let kept: Vec<_> =
            open_files(child.id()).into_iter().filter(|(_, it)| *it == format!("socket:[{inode}]")).collect();
        assert!(kept.is_empty(), "{way}: {kept:?}");
        drop(ours);
        terminate(&child);
        assert_eq!(ended(&mut child).await.code(), Some(0), "{way}");
        node.stop().await;
    }
}

#[tokio::test]
async fn the_logger_writes_every_event_of_a_life_with_what_it_is_about() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, log) = (folder.path().join("nri.sock"), folder.path().join("log"));
    let pod = pod("web");
    let mut app = container("app", &pod);
    app.mounts.push(Mount::bind("/srv", "/data", ["ro"]));
    app.env.push("A=it's 1".to_owned());
    app.annotations.insert("empty".to_owned(), String::new());
    let there_is = Snapshot { pods: vec![pod.clone()], containers: Vec::new() };
    let node = Node::listening(&socket, there_is).unwrap();
    let mut logger = logger();
    logger.args(["--idx", "10", "--once", "--socket"]).arg(&socket).arg("--log-file").arg(&log);
    let mut child = logger.stderr(Stdio::null()).spawn().unwrap();
    soon(node.joined("10-logger")).await;
    node.live(&pod, &app).await.unwrap();
    node.stop().await;
    assert_eq!(ended(&mut child).await.code(), Some(0));

    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<_> = text.lines().filter_map(|line| line.split_once("  INFO ")).map(|(_, line)| line).collect();
    for event in Event::ALL {
        assert!(lines.iter().any(|line| line.starts_with(&format!("{event}: "))), "{event} is missing in {text}");
    }
    let create: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix("CreateContainer: ")).collect();
    let expected = [
        "pod:",
        "   id: web",
        "   name: web",
        "   namespace: default",
        "container:",
        "   id: app",
        "   pod_sandbox_id: web",
        "   name: app",
        "   annotations:",
        "     empty: \"\"",
        "   env:",
        "   - \"A=it's 1\"",
        "   mounts:",
        "   - destination: /data",
        "     type: bind",
        "     source: /srv",
        "     options:",
        "     - bind",
        "     - ro",
    ];
    assert!(create.starts_with(&expected), "{create:#?}");
    assert!(lines.contains(&"Synchronize:    - id: web") && lines.contains(&"Synchronize:    []"), "{text}");
    assert!(lines.contains(&"Shutdown"), "{text}");
}

async fn soon(waited: impl Future<Output = ()>) {
    tokio::time::timeout(Duration::from_secs(20), waited).await.expect("it takes too long");
}

/// Launches an example as a runtime does: the plugin's end of the connection is descriptor 3, and
/// the environment has only the variables of NRI.
fn launch(name: &str, end: OwnedFd) -> Child {
    launched(example(name), end).spawn().unwrap()
}

/// Returns the command that launches a program as a runtime does.
fn launched(program: PathBuf, end: OwnedFd) -> Command {
    // The shell moves stdin to descriptor 3, and then executes the program.
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", "exec 3<&0 </dev/null; exec \"$0\" \"$@\""])
        .arg(program)
        .env_clear()
        .envs([("NRI_PLUGIN_NAME", "limits"), ("NRI_PLUGIN_IDX", "45"), ("NRI_PLUGIN_SOCKET", "3")])
        .stdin(end);
    command
}
