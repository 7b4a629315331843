//! Tests of shims as processes, without containerd and without root.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process};
use shim_plugins::protobuf::Message as _;
use shim_plugins::protos::bootstrap_api::{BootstrapParams, BootstrapResult};
use shim_plugins::task::api::DeleteResponse;
use tempfile::TempDir;

/// Returns the path of an example, which is built with the tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).unwrap().join("examples").join(name)
}

#[test]
fn what_the_code_of_a_shim_prints_in_delete_does_not_get_into_the_answer() {
    let bundle = tempfile::tempdir().unwrap();
    // The name that `start` would choose: the SHA-256 of `/nowhere/ns/c1`.
    let name = "2a31a7b3ff821eb0d5b9468b0296abaf6f7857221701b656d061e1350a93ebc2";
    let socket = bundle.path().join("sockets").join(name);
    fs::write(bundle.path().join("address"), format!("unix://{}", socket.display())).unwrap();
    let output = Command::new(example("rude_shim"))
        .args(["-namespace", "ns", "-id", "c1", "-address", "/nowhere", "delete"])
        .current_dir(bundle.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "cleaning up\n");
    assert_eq!(DeleteResponse::parse_from_bytes(&output.stdout).unwrap().exit_status, 137);
}

#[test]
fn what_a_server_reports_names_the_container_in_the_log() {
    let container = Container::new();
    fs::create_dir_all(container.bundle()).unwrap();
    let fifo = container.bundle().join("log");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let log = fs::File::options().read(true).write(true).open(&fifo).unwrap();
    let mut lines = BufReader::new(log).lines().map(Result::unwrap);
    let begin = |line: &str| line.starts_with("time=\"") && line.contains("\" level=");
    let container_name = format!(" id=c1 namespace={}", container.namespace);
    assert!(container.begin().wait().unwrap().success());
    let line = lines.next().unwrap();
    assert!(begin(&line) && line.contains(&format!(" msg=serving{container_name} plugins=")), "{line}");
    container.send(Signal::TERM);
    container.all_end("told to end");

    // A server without its `start` reports why it ends.
    let (_, handshake) = UnixStream::pair().unwrap();
    let socket = UnixListener::bind(container.dir.path().join("x")).unwrap();
    let mut server = container.command("hello_shim", "serve");
    server.stdin(OwnedFd::from(socket)).stdout(OwnedFd::from(handshake));
    let output = server.spawn().unwrap().wait_with_output().unwrap();
    let line = String::from_utf8(output.stderr).unwrap();
    assert!(begin(&line) && line.contains("msg=\"could not serve: could not read the assignment: "), "{line}");
    assert!(line.ends_with(&format!("{container_name}\n")), "{line}");
}

#[test]
fn a_print_before_the_shim_runs_is_named_as_the_cause_of_a_start_that_fails() {
    let container = Container::new();
    let started = container.begin_with(container.command("rude_shim", "start").env("RUDE", "1"));
    let output = started.wait_with_output().unwrap();
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    let cause = "could not serve: the program printed \"Starting my shim!\" to standard output before Shim::run, ";
    assert!(errors.contains(cause), "{errors}");
    container.nothing_is_left("after it failed");
    // A print in a plugin does no harm.
    let started = container.begin_with(&mut container.command("rude_shim", "start"));
    let output = started.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    BootstrapResult::parse_from_bytes(&output.stdout).unwrap();
}

/// The kills of one run. An operator may ask for more with `NRI_KILLS`.
const KILLS: u32 = 30;

/// How long a server that nobody knows may stay: the 10 seconds of the runner, and some for a slow
/// machine.
const GONE_LIMIT: Duration = Duration::from_secs(40);

/// A container as containerd 2.4 would start it, in a namespace of its own.
struct Container {
    dir: TempDir,
    namespace: String,
}

impl Container {
    fn new() -> Self {
        // The path must be short, so that the paths of sockets are not too long.
        let dir = tempfile::Builder::new().prefix("k").tempdir().unwrap();
        let namespace = dir.path().file_name().unwrap().to_str().unwrap().to_owned();
        Self { dir, namespace }
    }

    fn bundle(&self) -> PathBuf {
        self.dir.path().join("c1")
    }

    fn command(&self, shim: &str, action: &str) -> Command {
        let mut command = Command::new(example(shim));
        command.args(["-namespace", &self.namespace, "-id", "c1", "-address", "/nowhere", action]);
        command.current_dir(self.bundle()).stderr(Stdio::piped()).stdout(Stdio::piped()).stdin(Stdio::piped());
        command
    }

    /// Makes the bundle, and begins the action `start` of `hello_shim`.
    fn begin(&self) -> Child {
        self.begin_with(&mut self.command("hello_shim", "start"))
    }

    /// Makes the bundle, and begins the action `start`.
    fn begin_with(&self, command: &mut Command) -> Child {
        fs::create_dir_all(self.bundle()).unwrap();
        let mut params = BootstrapParams::new();
        params.instance_id = "c1".to_owned();
        params.namespace.clone_from(&self.namespace);
        params.socket_dir = Some(self.dir.path().join("s").display().to_string());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(&params.write_to_bytes().unwrap()).unwrap();
        child
    }

    /// Runs the action `start`, which must succeed, and ends the server in order. Then no socket
    /// may be left.
    fn start_and_end(&self, what: &str) {
        let output = self.begin().wait_with_output().unwrap();
        assert!(output.status.success(), "{what}, next: {}", String::from_utf8_lossy(&output.stderr));
        let answer = BootstrapResult::parse_from_bytes(&output.stdout).unwrap();
        let socket = PathBuf::from(answer.address.strip_prefix("unix://").unwrap());
        assert!(UnixStream::connect(&socket).is_ok(), "{what}: nobody listens");
        self.send(Signal::TERM);
        self.nothing_is_left(what);
        self.remove_bundle();
    }

    /// Runs the action `delete`, and removes the bundle.
    fn delete(&self) {
        let output = self.command("hello_shim", "delete").stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        self.remove_bundle();
    }

    fn remove_bundle(&self) {
        fs::remove_dir_all(self.bundle()).unwrap();
    }

    /// Returns the living processes of the shim: `start` and servers.
    fn processes(&self) -> Vec<Pid> {
        let is_ours = |dir: &Path| {
            // Of any thread: the first one may be a zombie while another one still has the socket.
            let threads = fs::read_dir(dir.join("task")).into_iter().flatten().flatten();
            let mut lines = threads.map(|thread| fs::read(thread.path().join("cmdline")).unwrap_or_default());
            lines.any(|line| String::from_utf8_lossy(&line).split('\0').any(|argument| argument == self.namespace))
        };
        let entries = fs::read_dir("/proc").unwrap().flatten().filter(|entry| is_ours(&entry.path()));
        entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).collect()
    }

    fn send(&self, signal: Signal) {
        for pid in self.processes() {
            // The process may have ended since.
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits until no process is left.
    fn all_end(&self, what: &str) {
        until(what, || (self.processes().is_empty(), "a process is left".to_owned()));
    }

    /// Waits until no process and no socket is left.
    fn nothing_is_left(&self, what: &str) {
        // A process that is in the middle of `exec` has no command line, so look until the end.
        until(what, || {
            let (processes, sockets) = (self.processes(), self.sockets());
            (processes.is_empty() && sockets.is_empty(), format!("{processes:?} and {sockets:?} are left"))
        });
    }

    fn sockets(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir.path().join("s")).map(Iterator::flatten);
        entries.map_or(Vec::new(), |entries| entries.map(|entry| entry.path()).collect())
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.send(Signal::KILL);
    }
}

/// Waits until a condition is true. The condition also returns what is wrong otherwise.
fn until(what: &str, mut condition: impl FnMut() -> (bool, String)) {
    let begun = Instant::now();
    loop {
        let (is_true, wrong) = condition();
        if is_true {
            return;
        }
        assert!(begun.elapsed() < GONE_LIMIT, "{what}: {wrong}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Pseudo-random numbers (xorshift), the same in each run. What is random is the machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }

    fn below_duration(&mut self, limit: Duration) -> Duration {
        Duration::from_micros(self.below(u64::try_from(limit.as_micros()).unwrap()))
    }
}

#[test]
fn g05_a_start_and_a_server_that_are_killed_at_random_moments_leave_no_server_and_no_socket() {
    let container = Container::new();
    container.start_and_end("before");
    let begun = Instant::now();
    assert!(container.begin().wait().unwrap().success());
    let usual = begun.elapsed();
    container.start_and_end("after");
    let kills = std::env::var("NRI_KILLS").map_or(KILLS, |n| n.parse().unwrap());
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for round in 0..kills {
        let mut start = container.begin();
        thread::sleep(dice.below_duration(usual * 3 / 2));
        // A third of the kills is of both, in either order.
        let both = dice.below(3) == 0;
        if both && dice.below(2) == 0 {
            container.send(Signal::KILL);
        }
        start.kill().unwrap();
        let killed = start.wait_with_output().unwrap();
        if both {
            thread::sleep(dice.below_duration(usual / 4));
            container.send(Signal::KILL);
            container.all_end("killed");
        }
        let what = format!("round {round}: start {}", killed.status);
        if killed.status.success() {
            // Containerd knows this server, so it is containerd's to end.
            container.send(Signal::TERM);
            container.all_end(&what);
        }
        match round % 3 {
            // The next `start` follows at once. It may find the server, and then it is in use.
            0 => container.remove_bundle(),
            // The next `start` follows when all is quiet.
            1 => {
                container.remove_bundle();
                container.all_end(&what);
            }
            // A daemon that is restarted finds the bundle, and calls `delete`.
            _ => {
                container.delete();
                container.nothing_is_left(&what);
            }
        }
        container.start_and_end(&what);
    }
}
