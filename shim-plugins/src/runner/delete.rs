//! The action `delete`: cleans up after a container in a process of its own, even if the server is
//! dead.

use std::error;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use containerd_shim_protos::api::DeleteResponse;
use futures_util::future::BoxFuture;
use protobuf::Message as _;
use protobuf::well_known_types::timestamp::Timestamp;

use super::environment::Environment;
use super::flags::Flags;
use super::shim::Shim;
use super::socket::{self, SocketError};
use super::start::ADDRESS_FILE;
use super::{debug_socket, group, socket_path};
use crate::process::{Exit, ExitRecord, bundle_file};

/// How long the cleanup may take. Containerd waits for 5 seconds.
const CLEANUP_LIMIT: Duration = Duration::from_secs(4);

/// The exit status of a container whose end is unknown: as if it had been killed.
const KILLED: u32 = 137;

/// A container to clean up after.
#[derive(Clone, Debug)]
pub struct CleanupTarget {
    /// The id of the container.
    pub id: String,
    /// The namespace of the container.
    pub namespace: String,
    /// The bundle of the container. Parts of it may be gone.
    pub bundle: PathBuf,
}

/// How a container ended, as the cleanup of a shim reports it.
#[derive(Clone, Copy, Debug, Default)]
pub struct CleanupReport {
    /// The first process of the container. 0 means the process of the [`ExitRecord`], if there is
    /// one.
    pub pid: u32,
    /// The exit of the container. `None` means the exit of the [`ExitRecord`]; without a record,
    /// the container counts as killed at this moment.
    pub exit: Option<Exit>,
}

/// The function with which a shim cleans up after a container.
pub(super) type CleanupFn = dyn Fn(CleanupTarget) -> BoxFuture<'static, Result<CleanupReport, Box<dyn error::Error + Send + Sync>>>
    + Send
    + Sync;

/// Why `delete` failed.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// The socket could not be removed.
    #[error("could not remove the socket of the shim")]
    Socket(#[from] SocketError),

    /// The cleanup of the shim failed.
    #[error("could not clean up after the container")]
    Cleanup(#[source] Box<dyn error::Error + Send + Sync>),

    /// The cleanup of the shim exceeded its limit.
    #[error("cleanup did not finish within {0:?}")]
    TooSlow(Duration),

    /// Containerd could not be answered.
    #[error("could not answer containerd")]
    Answer(#[source] io::Error),
}

pub(super) fn delete(shim: &Shim, flags: &Flags, environment: &mut Environment) -> Result<(), DeleteError> {
    let bundle = if flags.bundle.is_empty() { &environment.directory } else { Path::new(&flags.bundle) };
    let target = CleanupTarget { id: flags.id.clone(), namespace: flags.namespace.clone(), bundle: bundle.to_owned() };
    // The cleanup removes the files that these are read from, so read them first.
    let group = group::group(bundle, &flags.id);
    let path = socket_of(flags, environment, bundle, &group);
    let deleted = clean_up(shim, target);
    let record = ExitRecord::read(bundle);
    let debug = debug_socket::path(&path, &flags.address, &flags.namespace, &group);
    for path in [path, debug] {
        socket::remove_stale(&path)?;
    }
    let CleanupReport { pid, exit } = deleted?;
    let exit = exit.or(record.map(|record| record.exit)).unwrap_or(Exit { status: KILLED, at: shim.clock.now() });
    let pid = if pid == 0 { record.map_or(0, |record| record.pid) } else { pid };
    let mut response = DeleteResponse::new();
    response.pid = pid;
    response.exit_status = exit.status;
    response.exited_at = Some(Timestamp::from(exit.at)).into();
    let answer = response.write_to_bytes().expect("an answer is encoded into memory");
    environment.output.write_all(&answer).and_then(|()| environment.output.flush()).map_err(DeleteError::Answer)
}

/// Returns where the shim of the container listened: the address that `start` stored, or the path
/// that `start` would choose again.
fn socket_of(flags: &Flags, environment: &Environment, bundle: &Path, group: &str) -> PathBuf {
    let named_in = |dir: &Path| socket_path::path(dir, &flags.address, &flags.namespace, group);
    let guess = named_in(&environment.socket_dir);
    let written = bundle_file::read(bundle, ADDRESS_FILE).ok().and_then(|text| String::from_utf8(text).ok());
    let Some(written) = written.and_then(|text| socket_path::path_of(&text)) else { return guess };
    // Containerd does not tell `delete` the socket directory. The stored address does, but only a
    // path that `start` could have chosen is trusted.
    let is_below = |dir: &Path| *dir == environment.socket_dir && socket_path::is_socket_name(&written);
    let is_absolute = written.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let is_shims = |dir: &Path| is_below(dir) || written == named_in(dir);
    if is_absolute && written.parent().is_some_and(is_shims) {
        return written;
    }
    // Containerd logs the standard error of a `delete` that succeeds.
    let _ = writeln!(
        io::stderr(),
        "ignoring the address in {}, which is not a socket of a shim: {}",
        bundle.display(),
        written.display()
    );
    guess
}

fn clean_up(shim: &Shim, target: CleanupTarget) -> Result<CleanupReport, DeleteError> {
    let Some(cleanup) = &shim.cleanup else { return Ok(CleanupReport::default()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| DeleteError::Cleanup(error.into()))?;
    let cleaned = runtime.block_on(async { tokio::time::timeout(CLEANUP_LIMIT, cleanup(target)).await });
    runtime.shutdown_background();
    cleaned.map_err(|_| DeleteError::TooSlow(CLEANUP_LIMIT))?.map_err(DeleteError::Cleanup)
}
