//! The process of a launched plugin, and all that it starts.

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

use super::directory::Found;
use super::error::StartError;
use super::trust;

/// How long a process may take to end that was killed. One that waits for a broken disk takes
/// longer than anyone should.
const KILLED: Duration = Duration::from_secs(2);

/// A process that was started and not collected yet. Dropped, it is killed with all of its group.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    pid: Pid,
    /// Readable when it has ended, which does not collect it: until then nobody else can have its
    /// number.
    handle: AsyncFd<OwnedFd>,
    is_collected: bool,
}

/// A process that was started, and what leads to it.
pub(super) struct Started {
    pub(super) process: Process,
    pub(super) socket: UnixStream,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

/// Starts a plugin as upstream does: without arguments, with three variables, and with its
/// connection as descriptor 3. It has a process group of its own, and pipes to write to.
///
/// The path is checked anew at each start: much may have happened since the directory was read.
/// From then on only root and the runtime's own user can change what it leads to, so it is executed
/// as it is and not through a descriptor, which a script would see as its own name.
pub(super) fn start(found: &Found) -> Result<Started, StartError> {
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
    // The command owns the plugin's end of the connection. It must not stay open here.
    drop(command);
    let (stdout, stderr) = (child.stdout.take().expect(PIPED), child.stderr.take().expect(PIPED));
    let process = Process::watch(child).map_err(|source| StartError::Watch { path: path(), source })?;
    Ok(Started { process, socket, stdout, stderr })
}

const PIPED: &str = "its output is piped";

/// Upstream loads such a program into itself. The C library would take it for a script.
fn is_web_assembly(path: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\0asm"
}

/// Two ends of a connection, ours and the plugin's. Neither is inherited by what else is started.
///
/// From now on the number 3 is taken, by one of these if by nobody else. So what the standard
/// library opens next, to hear whether the program could be run, does not have it, and is not in
/// the way when the plugin's end gets it.
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
                // Dropping the child ends and collects it, but not what it may have started.
                signal_group(pid, Signal::KILL);
                Err(error)
            }
        }
    }

    /// Its number.
    pub(super) fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }

    /// Waits until it has ended.
    pub(super) async fn ended(&self) {
        // It stays readable. An error would mean that the runtime is shut down.
        let _ = self.handle.readable().await;
    }

    /// Waits until it has ended by itself, sees to it if that takes too long, and collects it. What
    /// it has started in its group ends with it.
    pub(super) async fn end(mut self, by_itself: Duration, when_told: Duration) -> io::Result<ExitStatus> {
        if timeout(by_itself, self.ended()).await.is_err() {
            signal_group(self.pid, Signal::TERM);
            // Its end is waited for below in any case.
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

/// Also if its leader has ended, as long as nobody has collected that.
fn signal_group(leader: Pid, signal: Signal) {
    // Nobody may be left.
    let _ = rustix::process::kill_process_group(leader, signal);
}
