//! The files of a bundle: the program that containerd wants to run, and the process group that a
//! later `delete` ends.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use serde::Deserialize;
use shim_plugins::runner::{CleanupReport, CleanupTarget};

use crate::group::Group;

/// The program of a container, as `config.json` describes it.
#[derive(Deserialize)]
pub(crate) struct Program {
    pub(crate) args: Vec<String>,
    #[serde(default)]
    pub(crate) env: Vec<String>,
}

/// The part of an OCI spec that this shim reads.
#[derive(Deserialize)]
struct Spec {
    process: Program,
}

/// Reads the program of a container from its bundle.
pub(crate) fn program(bundle: &Path) -> io::Result<Program> {
    let spec: Spec = serde_json::from_reader(io::BufReader::new(File::open(bundle.join("config.json"))?))?;
    Ok(spec.process)
}

/// The file with the process group of the container.
const GROUP: &str = "hello.group";

/// Stores the process group of a container in its bundle.
pub(crate) fn write_group(bundle: &Path, group: Group) -> io::Result<()> {
    let temporary = bundle.join(".hello.group");
    // A process that was killed may have left the file. A new file is created, so no link is
    // followed.
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

/// Cleans up after a container, whose server may be dead: ends its processes. The exit of the
/// container is in its exit record.
pub(crate) async fn clean_up(target: CleanupTarget) -> Result<CleanupReport, Box<dyn Error + Send + Sync>> {
    let Some(group) = read_group(&target.bundle) else { return Ok(CleanupReport::default()) };
    group.kill().await;
    Ok(CleanupReport { pid: group.pid, exit: None })
}
