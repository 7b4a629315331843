use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io, thread};

use cri_domain::generator::{Host, adjust};
use nri_proto::{Adjustment, LinuxAdjustment};
use serde_json::{Value, json};

const CGROUPS: &str = "/sys/fs/cgroup";

/// A directory with a root file system, for one container at a time.
pub(crate) struct Bundle {
    dir: tempfile::TempDir,
    busybox: PathBuf,
    /// The id of the container, and of its cgroup.
    pub(crate) id: String,
    pub(crate) spec: Value,
    pub(crate) adjustment: Adjustment,
    pub(crate) host: Host,
}

impl Bundle {
    /// Creates a bundle. If runc cannot run here, reports the reason and returns `None`.
    pub(crate) fn new() -> Option<Self> {
        let reason = match program("busybox") {
            _ if !rustix::process::geteuid().is_root() => "it takes root",
            _ if program("runc").is_none() => "there is no runc, see scripts/setup",
            Some(busybox) if is_static(&busybox) => return Some(Self::with(busybox)),
            _ => "there is no static busybox, see scripts/setup",
        };
        skip(reason)
    }

    /// Creates a bundle like [`Bundle::new`] if cgroups are of version 1.
    pub(crate) fn on_cgroup_v1() -> Option<Self> {
        if Path::new(CGROUPS).join("cgroup.controllers").exists() {
            return skip("it looks into cgroups of version 1");
        }
        Self::new()
    }

    /// Creates a bundle like [`Bundle::new`] if runc has at least this version.
    pub(crate) fn with_runc(major: u32, minor: u32) -> Option<Self> {
        let bundle = Self::new()?;
        let said = bundle.runc(&["--version"]).stdout;
        let version = String::from_utf8_lossy(&said).lines().next().unwrap_or_default().to_owned();
        let mut numbers =
            version.trim_start_matches("runc version ").split('.').map_while(|number| number.parse().ok());
        let found: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if found >= (major, minor) {
            return Some(bundle);
        }
        print_skipped(&format!("it takes runc {major}.{minor}, and this is {version}"));
        None
    }

    fn with(busybox: PathBuf) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = format!("nri-generator-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let dir = tempfile::Builder::new().prefix("nri-generator").tempdir().unwrap();
        let rootfs = dir.path().join("rootfs");
        for folder in ["bin", "proc", "dev", "tmp", "data"] {
            fs::create_dir_all(rootfs.join(folder)).unwrap();
        }
        fs::copy(&busybox, rootfs.join("bin/busybox")).unwrap();
        for applet in ["sh", "cat", "ls", "env", "mkdir", "readlink", "stat", "true"] {
            symlink("busybox", rootfs.join("bin").join(applet)).unwrap();
        }
        let spec = spec(&id);
        Self { dir, busybox, id, spec, adjustment: Adjustment::default(), host: Host::of_this_machine() }
    }

    pub(crate) fn linux(&mut self) -> &mut LinuxAdjustment {
        self.adjustment.linux.get_or_insert_default()
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the path of busybox on the host, which tests use as a hook.
    pub(crate) fn busybox(&self) -> &str {
        self.busybox.to_str().unwrap()
    }

    /// Runs a script in an adjusted container, and returns its output.
    pub(crate) fn run(&mut self, script: &str) -> String {
        self.spec["process"]["args"] = json!(["sh", "-c", script]);
        self.write();
        self.said(self.command(&["run", "--bundle", self.path().to_str().unwrap(), &self.id]))
    }

    /// Runs a script like [`run`](Self::run), in a new network that the commands `made` set up.
    pub(crate) fn run_in_network(&mut self, made: &str, script: &str) -> String {
        self.spec["process"]["args"] = json!(["sh", "-c", script]);
        self.write();
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", &format!("{made} && exec runc \"$@\""), "sh", "--root"]);
        command.arg(self.path().join("state")).args(["run", "--bundle"]).arg(self.path()).arg(&self.id);
        self.said(command)
    }

    fn said(&self, mut command: Command) -> String {
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        said
    }

    /// Creates an adjusted container, and returns the contents of files in its cgroup; `None` for a
    /// file that does not exist.
    pub(crate) fn cgroup<const N: usize>(&mut self, files: [&str; N]) -> [Option<String>; N] {
        self.create();
        let place = self.place();
        let read = |file: &str| {
            let (controller, file) = file.split_once('/').unwrap();
            let path = format!("{CGROUPS}/{controller}{place}/{file}");
            fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
        };
        files.map(read)
    }

    /// Creates an adjusted container, and returns its state as runc shows it.
    pub(crate) fn state(&mut self) -> Value {
        self.create();
        let output = self.runc(&["state", &self.id]);
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn create(&mut self) {
        self.write();
        // The container inherits the pipes, and nothing waits for their end.
        let bundle = self.path().to_str().unwrap().to_owned();
        let log = self.path().join("log");
        let mut command = self.command(&["--log", log.to_str().unwrap(), "create", "--bundle", &bundle, &self.id]);
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert!(status.success(), "{}", fs::read_to_string(log).unwrap_or_default());
    }

    fn write(&self) {
        let mut spec = self.spec.clone();
        adjust(&mut spec, &self.adjustment, &self.host).unwrap();
        fs::write(self.path().join("config.json"), spec.to_string()).unwrap();
    }

    fn place(&self) -> String {
        let adjusted = self.adjustment.linux.as_ref().map(|linux| linux.cgroups_path.clone());
        adjusted.filter(|path| !path.is_empty()).unwrap_or_else(|| format!("/{}", self.id))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("runc");
        command.arg("--root").arg(self.path().join("state")).args(args);
        command
    }

    fn runc(&self, args: &[&str]) -> Output {
        self.command(args).stdin(Stdio::null()).output().unwrap()
    }
}

/// Deletes the container with its cgroup and mounts.
impl Drop for Bundle {
    fn drop(&mut self) {
        let _ = self.runc(&["delete", "--force", &self.id]);
        let left: Vec<PathBuf> = fs::read_dir(CGROUPS)
            .into_iter()
            .flatten()
            .filter_map(|controller| {
                Some(PathBuf::from(format!("{}{}", controller.ok()?.path().display(), self.place())))
            })
            .filter(|cgroup| cgroup.exists())
            .collect();
        if !thread::panicking() {
            assert!(left.is_empty(), "cgroups are left: {left:?}");
        }
    }
}

fn skip<T>(reason: &str) -> Option<T> {
    assert!(env::var_os("NRI_REQUIRE_RUNC").is_none(), "{reason}");
    print_skipped(reason);
    None
}

fn print_skipped(reason: &str) {
    let _ = writeln!(io::stderr(), "skipped: {}: {reason}", thread::current().name().unwrap_or("a test"));
}

fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(name)).find(|program| program.is_file())
}

/// Returns whether a program is statically linked. A dynamic program names its loader.
fn is_static(program: &Path) -> bool {
    let Ok(bytes) = fs::read(program) else { return false };
    !bytes[..bytes.len().min(4096)].windows(8).any(|window| window == b"ld-linux" || window == b"/ld-musl")
}

/// Returns the spec of a common container, with an unknown member. It has its own network and IPC
/// namespaces.
fn spec(id: &str) -> Value {
    let capabilities = json!(["CAP_MKNOD", "CAP_DAC_OVERRIDE"]);
    json!({
        "ociVersion": "1.0.2",
        "org.example.future": true,
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": ["true"],
            "env": ["PATH=/bin", "HTTP_PROXY=http://proxy"],
            "cwd": "/",
            "capabilities": {"bounding": capabilities, "effective": capabilities, "permitted": capabilities},
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1000, "soft": 1000}],
        },
        "root": {"path": "rootfs"},
        "hostname": "container",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["mode=755"]},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
        ],
        "linux": {
            "cgroupsPath": format!("/{id}"),
            "devices": [{"path": "/dev/gone", "type": "c", "major": 1, "minor": 11}],
            "resources": {"devices": [
                {"allow": false, "access": "rwm"},
                {"allow": true, "type": "c", "major": 1, "minor": 11, "access": "rwm"},
            ]},
            "namespaces": [
                {"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}, {"type": "network"},
            ],
        },
    })
}
