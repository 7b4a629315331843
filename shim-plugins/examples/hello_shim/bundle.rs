//! What is in a bundle: what containerd wants to run, and what we leave for those who come after us.

use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use shim_plugins::reaper::Exit;
use shim_plugins::runner::{Deleted, Deleting};

/// The process of a container, as `config.json` has it.
#[derive(Deserialize)]
pub(crate) struct Program {
    pub(crate) args: Vec<String>,
    #[serde(default)]
    pub(crate) env: Vec<String>,
}

#[derive(Deserialize)]
struct Spec {
    process: Program,
}

/// Reads what to run.
pub(crate) fn program(bundle: &Path) -> io::Result<Program> {
    let spec: Spec = serde_json::from_reader(io::BufReader::new(File::open(bundle.join("config.json"))?))?;
    Ok(spec.process)
}

/// A process and when it began: no other process has both.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Running {
    pid: u32,
    began: u64,
}

/// How a process ended, as it is written down.
#[derive(Serialize, Deserialize)]
struct Ended {
    status: u32,
    at: SystemTime,
}

/// Writes down which process runs.
pub(crate) fn write_running(bundle: &Path, pid: u32) -> io::Result<()> {
    write(&bundle.join("hello.pid"), &Running { pid, began: began(pid).unwrap_or_default() })
}

/// Writes down how it ended.
pub(crate) fn write_exit(bundle: &Path, exit: Exit) -> io::Result<()> {
    write(&bundle.join("hello.exit"), &Ended { status: exit.status, at: exit.at })
}

fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let temporary = path.with_extension("new");
    fs::write(&temporary, serde_json::to_vec(value)?)?;
    fs::rename(temporary, path)
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// When a process began, in ticks since the machine did; `None` if it is dead.
fn began(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Cleans up after a container, perhaps without its server: ends its process, and says how it ended.
pub(crate) async fn clean_up(deleting: Deleting) -> Result<Deleted, Box<dyn Error + Send + Sync>> {
    let bundle = &deleting.bundle;
    let running: Option<Running> = read(&bundle.join("hello.pid"));
    if let Some(Running { pid, began: since }) = running
        && let Some(process) = rustix::process::Pid::from_raw(pid.cast_signed())
    {
        while began(pid) == Some(since) {
            let _ = rustix::process::kill_process_group(process, rustix::process::Signal::KILL);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let ended: Option<Ended> = read(&bundle.join("hello.exit"));
    let exit = ended.map(|Ended { status, at }| Exit { status, at });
    Ok(Deleted { pid: running.map_or(0, |running| running.pid), exit })
}
