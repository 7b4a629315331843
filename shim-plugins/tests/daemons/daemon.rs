//! A real containerd in a directory of its own, and how tests use it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// The timeout of every wait.
const LIMIT: Duration = Duration::from_secs(60);

/// A running containerd.
pub(crate) struct Daemon {
    bin: PathBuf,
    dir: TempDir,
    /// The namespace of this test alone.
    pub(crate) namespace: String,
    /// The example that is the shim of the containers.
    pub(crate) shim: &'static str,
    child: Child,
    /// Processes and sockets that must be gone at the end.
    pids: BTreeSet<u32>,
    sockets: BTreeSet<PathBuf>,
}

/// Waits until a condition is true.
pub(crate) fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < LIMIT, "waited for too long: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns whether a process is alive. A zombie is not.
pub(crate) fn lives(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z')))
}

/// Returns how many children of a process are zombies.
pub(crate) fn zombies_of(parent: u32) -> usize {
    let is_one =
        |stat: String| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(&format!("Z {parent} ")));
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter(|entry| fs::read_to_string(entry.path().join("stat")).is_ok_and(is_one)).count()
}

/// Returns the path of an example, which is built with the tests.
fn example(name: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    let shim = test.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    assert!(shim.exists(), "there is no {}: build the examples", shim.display());
    shim
}

/// Returns why a containerd could not be built on this machine, as the build recorded it.
fn absence(bins: &Path, version: &str) -> Option<String> {
    let reason = fs::read_to_string(bins.join(format!("{version}.absent"))).ok()?;
    Some(reason.trim().to_owned())
}

fn skipped(reason: &str) {
    let _ = writeln!(io::stderr(), "skipped: {}: {reason}", thread::current().name().unwrap_or("a test"));
}

#[test]
fn a_daemon_that_this_machine_cannot_have_is_no_failure_and_says_why() {
    let bins = tempfile::tempdir().unwrap();
    fs::write(bins.path().join("debian-1.6.absent"), "Debian has another containerd here\n").unwrap();
    assert_eq!(absence(bins.path(), "debian-1.6").as_deref(), Some("Debian has another containerd here"));
    assert_eq!(absence(bins.path(), "v2.4.2"), None);
}

impl Daemon {
    /// Starts a containerd. If it cannot run here, prints why and returns `None`.
    pub(crate) fn start(version: &str) -> Option<Self> {
        let bins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/interop/daemons/bin");
        let bin = bins.join(version);
        if let Some(reason) = absence(&bins, version) {
            skipped(&reason);
            return None;
        }
        let is_required = env::var_os("NRI_REQUIRE_DAEMONS").is_some();
        let reason = if !is_required && env::var_os("NRI_LONG").is_none() {
            "it takes long, see make conformance"
        } else if !rustix::process::geteuid().is_root() {
            "it takes root"
        } else if !bin.join("containerd").exists() {
            "this containerd is not built, see make conformance"
        } else {
            return Some(Self::start_in(bin.canonicalize().unwrap()));
        };
        assert!(!is_required, "{version}: {reason}");
        skipped(reason);
        None
    }

    fn start_in(bin: PathBuf) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let namespace = format!("hello-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let dir = tempfile::Builder::new().prefix("ctd").tempdir().unwrap();
        fs::create_dir(dir.path().join("rootfs")).unwrap();
        let config = format!(
            "version = 2\nroot = \"{0}/root\"\nstate = \"{0}/state\"\n\
             disabled_plugins = [\"io.containerd.grpc.v1.cri\", \"io.containerd.internal.v1.opt\"]\n\
             [grpc]\naddress = \"{0}/c.sock\"\n",
            dir.path().display()
        );
        fs::write(dir.path().join("config.toml"), config).unwrap();
        let child = spawn(&bin, dir.path());
        let (shim, pids, sockets) = ("hello_shim", BTreeSet::new(), BTreeSet::new());
        let daemon = Self { bin, dir, namespace, shim, child, pids, sockets };
        daemon.wait_until_up();
        daemon
    }

    fn wait_until_up(&self) {
        until("the daemon starts", || self.ctr(&["version"]).status.success());
    }

    /// Ends the daemon, but not the processes that it started.
    pub(crate) fn stop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }

    /// Kills the daemon, but not the processes that it started.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts the daemon again.
    pub(crate) fn start_again(&mut self) {
        self.child = spawn(&self.bin, self.dir.path());
        self.wait_until_up();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns whether the daemon ignores a shim without a container that it finds after a restart.
    /// Containerd 1.6 does.
    pub(crate) fn keeps_shims_without_containers(&self) -> bool {
        self.bin.ends_with("containerd-debian-1.6")
    }

    /// Returns the bundle of a container.
    pub(crate) fn bundle(&self, id: &str) -> PathBuf {
        self.dir.path().join("state/io.containerd.runtime.v2.task").join(&self.namespace).join(id)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("timeout");
        command.arg("60").arg(self.bin.join("ctr")).arg("-a").arg(self.path("c.sock")).args(["-n", &self.namespace]);
        command.stdin(Stdio::null());
        command
    }

    /// Runs `ctr`.
    pub(crate) fn ctr(&self, args: &[&str]) -> Output {
        self.command().args(args).output().unwrap()
    }

    /// Starts a `ctr` that waits for the end of a container.
    pub(crate) fn wait_for(&self, id: &str) -> Child {
        let mut command = self.command();
        let child = command.args(["task", "attach", id]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // `ctr` does not report that it waits.
        thread::sleep(Duration::from_millis(500));
        child
    }

    /// Runs `ctr`, which must succeed.
    pub(crate) fn ctr_ok(&self, args: &[&str]) -> String {
        let output = self.ctr(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ctr {args:?}: {errors}\n{}", self.log());
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a container with our shim, given flags, id and command.
    pub(crate) fn run(&self, flags: &[&str], id: &str, command: &[&str]) -> Output {
        let (shim, rootfs) = (example(self.shim).display().to_string(), self.path("rootfs").display().to_string());
        let mut args = vec!["run", "--runtime", &shim, "--rootfs"];
        args.extend(flags);
        args.extend([rootfs.as_str(), id]);
        args.extend(command);
        self.ctr(&args)
    }

    /// Starts to run a container with our shim.
    pub(crate) fn begin(&self, flags: &[&str], id: &str, command: &[&str]) -> Child {
        // Without `timeout`, because the test kills the process.
        let mut ctr = Command::new(self.bin.join("ctr"));
        ctr.arg("-a").arg(self.path("c.sock")).args(["-n", &self.namespace, "run", "--runtime"]);
        ctr.arg(example(self.shim));
        ctr.arg("--rootfs").args(flags).arg(self.path("rootfs")).arg(id).args(command);
        ctr.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Runs a container in the background, and returns the id of its process.
    pub(crate) fn run_detached(&mut self, flags: &[&str], id: &str, script: &str) -> u32 {
        let flags: Vec<_> = ["-d"].iter().chain(flags).copied().collect();
        let output = self.run(&flags, id, &["sh", "-c", script]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}\n{}", self.log());
        let (pid, _) = self.task(id).unwrap_or_else(|| panic!("{id} is no task\n{}", self.log()));
        self.pids.insert(pid);
        self.pids.extend(self.shims());
        self.sockets.insert(self.socket(id));
        pid
    }

    /// Returns the id of a container's process, and its state.
    pub(crate) fn task(&self, id: &str) -> Option<(u32, String)> {
        let list = self.ctr_ok(&["task", "ls"]);
        let words: Vec<_> = list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
        let words = words.into_iter().find(|words| words.first() == Some(&id))?;
        Some((words[1].parse().unwrap(), words[2].to_owned()))
    }

    /// Returns where the shim of a container listens.
    pub(crate) fn socket(&self, id: &str) -> PathBuf {
        let address = fs::read_to_string(self.bundle(id).join("address")).unwrap();
        PathBuf::from(address.strip_prefix("unix://").unwrap())
    }

    /// Returns where the shim of a container would listen, by the naming of Go's shim.
    pub(crate) fn socket_to_be(&self, id: &str) -> PathBuf {
        let text = format!("{}/{}/{id}", self.path("c.sock").display(), self.namespace);
        let name: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        Path::new("/run/containerd/s").join(name)
    }

    /// Returns the living shims of this test.
    pub(crate) fn shims(&self) -> Vec<u32> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let Ok(line) = fs::read(entry.path().join("cmdline")) else { continue };
            let line = String::from_utf8_lossy(&line).into_owned();
            // The arguments of `ctr` also name the shim.
            let is_shim = line.split('\0').next().is_some_and(|program| program.ends_with(self.shim));
            if is_shim && line.contains(&self.namespace) && lives(pid) {
                found.push(pid);
            }
        }
        found
    }

    /// Starts to record events, until the recorder is dropped.
    pub(crate) fn events(&self) -> Events {
        let file = File::create(self.path("events")).unwrap();
        // Without `timeout`, because the test kills the process.
        let mut command = Command::new(self.bin.join("ctr"));
        command.arg("-a").arg(self.path("c.sock")).args(["-n", &self.namespace, "events"]);
        let child = command.stdin(Stdio::null()).stdout(file).stderr(Stdio::null()).spawn().unwrap();
        // `ctr` does not report that it listens.
        thread::sleep(Duration::from_millis(500));
        Events { child, path: self.path("events") }
    }

    /// Returns the log of the daemon.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Checks that nothing of this test is left but the daemon, and ends the daemon.
    pub(crate) fn nothing_is_left(mut self) {
        until("the shims end", || self.shims().is_empty());
        let pids = self.pids.clone();
        until("the processes end", || pids.iter().all(|&pid| !lives(pid)));
        for socket in &self.sockets {
            assert!(!socket.exists(), "{} is left", socket.display());
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(self.dir.path().to_str().unwrap()), "{mounts}");
        assert!(!has_cgroup(Path::new("/sys/fs/cgroup"), &self.namespace), "a cgroup is left");
        let bundles = fs::read_dir(self.bundle("x").parent().unwrap()).map_or(0, Iterator::count);
        assert_eq!(bundles, 0, "a bundle is left\n{}", self.log());
        self.stop();
    }
}

/// Returns whether there is a cgroup of a name, up to two levels below.
fn has_cgroup(root: &Path, name: &str) -> bool {
    let below = |dir: &Path| fs::read_dir(dir).map(|entries| entries.flatten().map(|entry| entry.path()).collect());
    let dirs: Vec<PathBuf> = below(root).unwrap_or_default();
    root.join(name).exists() || dirs.iter().any(|dir| dir.join(name).exists())
}

fn spawn(bin: &Path, dir: &Path) -> Child {
    let log = File::options().create(true).append(true).open(dir.join("log")).unwrap();
    let path = format!("{}:{}", bin.display(), env::var("PATH").unwrap());
    let mut command = Command::new(bin.join("containerd"));
    command.arg("-c").arg(dir.join("config.toml")).env("PATH", path).stdin(Stdio::null());
    command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A failed test may have left processes.
        for pid in self.pids.iter().copied().chain(self.shims()) {
            if let Some(pid) = rustix::process::Pid::from_raw(pid.cast_signed()).filter(|_| lives(pid)) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

/// A recorder of events.
pub(crate) struct Events {
    child: Child,
    path: PathBuf,
}

impl Events {
    /// Returns the events of a topic so far, as JSON.
    pub(crate) fn told(&self, topic: &str) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(&self.path).unwrap();
        let bodies = text.lines().filter_map(|line| line.split_once(&format!(" {topic} ")).map(|(_, body)| body));
        bodies.map(|body| serde_json::from_str(body).unwrap()).collect()
    }

    /// Returns the topics of task events so far.
    pub(crate) fn topics(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.path).unwrap();
        let topics = text.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with("/tasks/")));
        topics.map(str::to_owned).collect()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
