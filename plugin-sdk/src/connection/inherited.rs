//! The connection that a runtime gives to a plugin that it launches.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use thiserror::Error;

/// Why the descriptor that the environment names leads to no runtime.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InheritedError {
    /// What the environment says is no number of a descriptor.
    #[error("invalid socket in environment (NRI_PLUGIN_SOCKET={value:?}): not the number of a file descriptor")]
    NoNumber {
        /// What it says.
        value: String,
    },
    /// There is no such descriptor.
    #[error("invalid socket ({number}) in environment")]
    NotOpen {
        /// Its number.
        number: RawFd,
        /// Why.
        source: io::Error,
    },
    /// It leads to something else.
    #[error("invalid socket ({number}) in environment: it is no connected unix socket")]
    NoSocket {
        /// Its number.
        number: RawFd,
    },
}

/// Takes the connection that `NRI_PLUGIN_SOCKET` names.
///
/// From then on the number is closed, so that programs which the plugin starts do not inherit the connection.
pub(crate) fn take(value: &str) -> Result<UnixStream, InheritedError> {
    let number = value.parse().ok().filter(|number: &RawFd| *number >= 0);
    let number = number.ok_or_else(|| InheritedError::NoNumber { value: value.to_owned() })?;
    let unusable = |source| InheritedError::NotOpen { number, source };
    let descriptor = copy(number).map_err(unusable)?;
    if !is_connected_unix_socket(&descriptor) {
        return Err(InheritedError::NoSocket { number });
    }
    close(number).map_err(unusable)?;
    let stream = UnixStream::from(descriptor);
    stream.set_nonblocking(true).map_err(unusable)?;
    Ok(stream)
}

/// Copies a descriptor.
///
/// A number alone can be anyone's descriptor, so to own it takes `unsafe`. The kernel gives a copy for the asking, one
/// that programs which the plugin starts do not inherit.
fn copy(number: RawFd) -> io::Result<OwnedFd> {
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    Ok(pidfd_getfd(own, number, PidfdGetfdFlags::empty())?)
}

/// Closes a descriptor that this process was started with.
///
/// What a process is started with is never close-on-exec, and what it opens itself in Rust always is. A descriptor that is
/// close-on-exec stays open: it belongs to somebody in this process, and is not inherited by others in any case.
fn close(number: RawFd) -> io::Result<()> {
    if is_close_on_exec(number)? {
        return Ok(());
    }
    Ok(nix::unistd::close(number)?)
}

/// Says whether a descriptor is closed when this process, or a copy of it, executes a program.
fn is_close_on_exec(number: RawFd) -> io::Result<bool> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}"))?;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    let flags = flags.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no flags in /proc/self/fdinfo"))?;
    Ok(flags & SocketFlags::CLOEXEC.bits() != 0)
}

fn is_connected_unix_socket(descriptor: &OwnedFd) -> bool {
    sockopt::socket_domain(descriptor) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(descriptor) == Ok(SocketType::STREAM)
        && rustix::net::getpeername(descriptor).is_ok()
}
