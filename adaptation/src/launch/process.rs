//! The process of a launched plugin and its process group.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use command_fds::{CommandFdExt as _, FdMapping};
use nri_proto::defaults::{PLUGIN_INDEX_ENV, PLUGIN_NAME_ENV, PLUGIN_SOCKET_ENV, PLUGIN_SOCKET_FD};
use rustix::process::{Pid, PidfdFlags, Signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::timeout;

use super::directory::PluginProgram;
use super::error::StartError;
use super::trust;

/// How long a killed process may take to end. A process that waits for a broken disk could take
/// forever.
const KILLED: Duration = Duration::from_secs(2);

/// A process that was started and not yet waited for. Dropping it kills its process group.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    pid: Pid,
    /// Becomes readable when the process has ended. Reading does not reap the process, so its pid
    /// is not reused until then.
    handle: AsyncFd<OwnedFd>,
    is_collected: bool,
}

/// A process that was started, with its socket and its pipes.
pub(super) struct Started {
    pub(super) process: Process,
    pub(super) socket: UnixStream,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

/// Starts a plugin as upstream does: without arguments, with three environment variables, and with
/// its connection as file descriptor 3. The process has a process group of its own, and pipes for
/// its output.
///
/// The path is checked at each start, because much may have changed since the directory was read.
/// After the check, only root and the runtime's own user can change what the path leads to. So the
/// path itself is executed, and not a file descriptor, which a script would see as its own name.
pub(super) fn start(found: &PluginProgram) -> Result<Started, StartError> {
    let path = || found.path.clone();
    trust::check(&found.path).map_err(|source| StartError::Untrusted { path: path(), source })?;
    if is_web_assembly(&found.path) {
        return Err(StartError::WebAssembly { path: path() });
    }
    let (socket, theirs) = connection().map_err(|source| StartError::Connect { path: path(), source })?;
    let mut command = Command::new(&found.path);
    command
        .env_clear()
        .env(PLUGIN_NAME_ENV, found.id.name())
        .env(PLUGIN_INDEX_ENV, found.id.index())
        .env(PLUGIN_SOCKET_ENV, PLUGIN_SOCKET_FD.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .fd_mappings(vec![FdMapping { parent_fd: theirs, child_fd: PLUGIN_SOCKET_FD }])
        .expect("one descriptor cannot be in the way of another");
    let mut child = command.spawn().map_err(|source| StartError::Spawn { path: path(), source })?;
    // The command owns the plugin's end of the connection, which must not stay open here.
    drop(command);
    let (stdout, stderr) = (child.stdout.take().expect(PIPED), child.stderr.take().expect(PIPED));
    let process = Process::watch(child).map_err(|source| StartError::Watch { path: path(), source })?;
    Ok(Started { process, socket, stdout, stderr })
}

const PIPED: &str = "its output is piped";

/// Returns whether a program is WebAssembly. Upstream runs such a program inside its own process.
/// Without this check, the C library would run it as a shell script.
fn is_web_assembly(path: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\0asm"
}

/// Creates a connection: the runtime's end and the plugin's end. Other child processes inherit
/// neither.
///
/// After this call, file descriptor 3 is in use, either by one of the two ends or already before.
/// So the descriptor that the standard library opens next, to learn whether the program could be
/// executed, does not get that number. The plugin's end can then become descriptor 3 in the child
/// process.
fn connection() -> io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = StdUnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((UnixStream::from_std(ours)?, theirs.into()))
}

impl Process {
    fn watch(child: Child) -> io::Result<Self> {
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let pid = pid.expect("a child that was not waited for has a pid");
        let watched =
            rustix::process::pidfd_open(pid, PidfdFlags::NONBLOCK).map_err(io::Error::from).and_then(|handle| {
                #[expect(
                    deprecated,
                    reason = "its successor is unsafe, for the sake of descriptors that change; an OwnedFd does not"
                )]
                AsyncFd::with_interest(handle, Interest::READABLE)
            });
        match watched {
            Ok(handle) => Ok(Self { child, pid, handle, is_collected: false }),
            Err(error) => {
                // Dropping the child kills and reaps it, but not the processes that it may have
                // started.
                signal_group(pid, Signal::KILL);
                Err(error)
            }
        }
    }

    /// Returns the pid.
    pub(super) fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }

    /// Waits until the process has ended.
    pub(super) async fn ended(&self) {
        // The handle stays readable. An error would mean that the Tokio runtime is shut down.
        let _ = self.handle.readable().await;
    }

    /// Waits for `by_itself` until the process ends, then sends SIGTERM and waits for `when_told`.
    /// In the end kills the whole process group, and reaps the process.
    pub(super) async fn end(mut self, by_itself: Duration, when_told: Duration) -> io::Result<ExitStatus> {
        if timeout(by_itself, self.ended()).await.is_err() {
            signal_group(self.pid, Signal::TERM);
            // A process that has not ended by now is killed below.
            let _ = timeout(when_told, self.ended()).await;
        }
        signal_group(self.pid, Signal::KILL);
        let status = timeout(KILLED, self.child.wait()).await??;
        self.is_collected = true;
        Ok(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.is_collected {
            signal_group(self.pid, Signal::KILL);
        }
    }
}

/// Sends a signal to a process group. This is safe even if the leader has ended, as long as the
/// leader was not reaped.
fn signal_group(leader: Pid, signal: Signal) {
    // An error means that no process of the group is left.
    let _ = rustix::process::kill_process_group(leader, signal);
}
