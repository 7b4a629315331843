//! What is in a bundle: what containerd wants to run, and what we leave for those who come after us.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use serde::Deserialize;
use shim_plugins::runner::{CleanupReport, CleanupTarget};

use crate::group::Group;

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

const GROUP: &str = "hello.group";

/// Writes down which processes run.
pub(crate) fn write_group(bundle: &Path, group: Group) -> io::Result<()> {
    let temporary = bundle.join(".hello.group");
    // Left by a process that was killed half-way. A file is made, never opened, so no link is followed.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = File::create_new(&temporary)?;
    file.write_all(&serde_json::to_vec(&group)?)?;
    fs::rename(temporary, bundle.join(GROUP))
}

fn read_group(bundle: &Path) -> Option<Group> {
    serde_json::from_slice(&fs::read(bundle.join(GROUP)).ok()?).ok()
}

/// Cleans up after a container, perhaps without its server: ends its processes. How it ended is in its record.
pub(crate) async fn clean_up(target: CleanupTarget) -> Result<CleanupReport, Box<dyn Error + Send + Sync>> {
    let Some(group) = read_group(&target.bundle) else { return Ok(CleanupReport::default()) };
    group.kill().await;
    Ok(CleanupReport { pid: group.pid, exit: None })
}
