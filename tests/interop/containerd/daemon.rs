//! One containerd in a directory of its own.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::Value;
use tempfile::TempDir;

use super::{image, read};

/// The time limit of each step.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
pub(crate) fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < LIMIT, "waited for too long: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A running containerd. Dropping it kills the daemon and all processes that it started.
pub(crate) struct Containerd {
    bin: PathBuf,
    dir: TempDir,
    /// The name of the cgroup of its pods, which no other test uses.
    pub(crate) prefix: String,
    child: Child,
    /// The length of the log when the daemon was last started.
    old_log: usize,
}

impl Containerd {
    /// Starts a containerd, or reports why that is not possible.
    pub(crate) fn start() -> Option<Self> {
        let bin = daemons().join("v2.4.2");
        let is_required = env::var_os("NRI_REQUIRE_DAEMONS").is_some();
        let reason = if !is_required && env::var_os("NRI_LONG").is_none() {
            "it takes long, see make conformance"
        } else if !geteuid().is_root() {
            "it takes root"
        } else if !bin.join("inmate").exists() {
            "this containerd is not built, see make conformance"
        } else if !Command::new("runc").arg("--version").env("PATH", path(&bin)).output().is_ok_and(succeeded) {
            "there is no runc"
        } else {
            return Some(Self::start_in(bin.canonicalize().unwrap()));
        };
        assert!(!is_required, "{reason}");
        let _ = writeln!(io::stderr(), "skipped: {}: {reason}", thread::current().name().unwrap_or("a test"));
        None
    }

    fn start_in(bin: PathBuf) -> Self {
        let prefix = format!("nri-sdk-{}", std::process::id());
        // The path of a socket must be short.
        let dir = tempfile::Builder::new().prefix("nri").tempdir().unwrap();
        fs::write(dir.path().join("config.toml"), config(dir.path())).unwrap();
        let child = spawn(&bin, dir.path());
        let containerd = Self { bin, dir, prefix, child, old_log: 0 };
        containerd.wait_until_up();
        let image = image::make(containerd.dir.path(), &containerd.bin.join("inmate"));
        let output = containerd.ctr(&["-n", "k8s.io", "images", "import", image.to_str().unwrap()]);
        assert!(output.status.success(), "{output:?}");
        containerd
    }

    fn wait_until_up(&self) {
        until("containerd starts", || succeeded(self.ctr(&["version"])));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn ctr(&self, args: &[&str]) -> Output {
        let mut command = Command::new("timeout");
        command.arg("60").arg(self.bin.join("ctr")).arg("-a").arg(self.path("c.sock")).args(args);
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// Makes a call of the CRI.
    pub(crate) fn cri(&self, call: &str, request: &Value) -> Value {
        let mut command = Command::new(self.bin.join("cri"));
        let output = command.arg(self.path("c.sock")).arg(call).arg(request.to_string()).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}\n{}", read(&self.path("log")));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Waits until the daemon has admitted a plugin since its last start.
    pub(crate) fn admits(&self, plugin: &str) {
        // Quotes are escaped in the log.
        let text = format!("plugin \\\"{plugin}\\\" connected and synchronized");
        until(&format!("{plugin} is let in"), || read(&self.path("log"))[self.old_log..].contains(&text));
    }

    /// Kills the daemon, but not the processes that it started.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn start_again(&mut self) {
        self.old_log = read(&self.path("log")).len();
        self.child = spawn(&self.bin, self.dir.path());
        self.wait_until_up();
    }

    /// Checks that nothing of this test is left except the daemon, and ends the daemon.
    pub(crate) fn nothing_is_left(mut self) {
        until("the shims end", || self.shims().is_empty());
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        assert_eq!(self.mounts(), Vec::<PathBuf>::new());
    }

    /// Returns the living shims of this test.
    fn shims(&self) -> Vec<Pid> {
        let own = self.path("").into_os_string().into_string().unwrap();
        let pids =
            fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_own = |pid: &i32| {
            let line = read(Path::new(&format!("/proc/{pid}/cmdline")));
            line.contains("containerd-shim") && line.contains(&own)
        };
        pids.filter(is_own).map(Pid::from_raw).collect()
    }

    /// Returns the mounts below the directory of the daemon, the innermost first.
    fn mounts(&self) -> Vec<PathBuf> {
        let text = read(Path::new("/proc/self/mountinfo"));
        let points = text.lines().rev().filter_map(|line| line.split_whitespace().nth(4)).map(PathBuf::from);
        points.filter(|point| point.starts_with(self.dir.path())).collect()
    }

    /// Removes the parent cgroup of the pods, which stays behind.
    fn remove_cgroups(&self) {
        for hierarchy in fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
            let _ = fs::remove_dir(hierarchy.path().join(&self.prefix));
        }
        let _ = fs::remove_dir(Path::new("/sys/fs/cgroup").join(&self.prefix));
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A failed test may have left something. A container ends with its first process, and that
        // ends with the shim's.
        for shim in self.shims() {
            let children = read(Path::new(&format!("/proc/{shim}/task/{shim}/children")));
            let children = children.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw);
            for pid in children.chain([shim]) {
                let _ = kill(pid, Signal::SIGKILL);
            }
        }
        for mount in self.mounts() {
            let _ = Command::new("umount").arg("-l").arg(mount).status();
        }
        self.remove_cgroups();
    }
}

fn succeeded(output: Output) -> bool {
    output.status.success()
}

fn daemons() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/daemons/bin")
}

/// Returns the search path of the daemon: first its own shim, and also the place where `make
/// daemons` puts runc.
fn path(bin: &Path) -> String {
    format!("{}:{}:{}", bin.display(), env::var("PATH").unwrap(), daemons().join("debian-runc").display())
}

fn spawn(bin: &Path, dir: &Path) -> Child {
    let log = File::options().create(true).append(true).open(dir.join("log")).unwrap();
    let mut command = Command::new(bin.join("containerd"));
    command.arg("-c").arg(dir.join("config.toml")).env("PATH", path(bin)).stdin(Stdio::null());
    command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

/// Returns the configuration of the daemon, whose files are all below one directory. On some
/// machines a process must not lower its OOM score, which the pause process requests.
fn config(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        r#"
        version = 3
        root = "{dir}/root"
        state = "{dir}/state"
        disabled_plugins = ["io.containerd.internal.v1.opt"]
        [grpc]
        address = "{dir}/c.sock"
        [plugins."io.containerd.cri.v1.images".pinned_images]
        sandbox = "{image}"
        [plugins."io.containerd.cri.v1.runtime"]
        restrict_oom_score_adj = true
        [plugins."io.containerd.cri.v1.runtime".cni]
        conf_dir = "{dir}/cni"
        [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
        runtime_type = "io.containerd.runc.v2"
        [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        Root = "{dir}/runc"
        [plugins."io.containerd.nri.v1.nri"]
        disable = false
        socket_path = "{dir}/nri.sock"
        plugin_path = "{dir}/plugins"
        plugin_config_path = "{dir}/configs"
        "#,
        image = image::NAME
    )
}
