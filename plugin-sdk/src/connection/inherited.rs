//! The connection that a runtime passes to a plugin that it launches.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use thiserror::Error;
use tracing::warn;

/// Errors from using the file descriptor that `NRI_PLUGIN_SOCKET` names.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InheritedError {
    /// The value is not the number of a file descriptor.
    #[error("invalid socket in environment (NRI_PLUGIN_SOCKET={value:?}): not the number of a file descriptor")]
    NoNumber {
        /// The value of `NRI_PLUGIN_SOCKET`.
        value: String,
    },
    /// The file descriptor is not open, or cannot be used.
    #[error("invalid socket ({number}) in environment")]
    NotOpen {
        /// The number of the file descriptor.
        number: RawFd,
        /// The cause.
        source: io::Error,
    },
    /// The file descriptor is not a connected unix socket.
    #[error("invalid socket ({number}) in environment: not a connected unix socket")]
    NoSocket {
        /// The number of the file descriptor.
        number: RawFd,
    },
}

/// Takes over the connection on the file descriptor with this number.
///
/// The returned stream uses a copy of the descriptor. The descriptor itself is closed, so that
/// programs that the plugin starts do not inherit the connection.
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

/// Closes the inherited connection on the file descriptor with this number, because the plugin does
/// not use it. Programs that the plugin starts would inherit the connection, and the runtime would
/// wait for a registration on it.
///
/// An error means that there is nothing to close, so the plugin starts all the same.
pub(crate) fn discard(value: &str) {
    let Some(number) = value.parse().ok().filter(|number: &RawFd| *number >= 0) else { return };
    let is_connection = copy(number).is_ok_and(|descriptor| is_connected_unix_socket(&descriptor));
    if is_connection && let Err(error) = close(number) {
        warn!(number, %error, "could not close the connection that the plugin was launched with");
    }
}

/// Copies the file descriptor with this number.
///
/// Turning a number into an owned descriptor needs `unsafe`, since other code may own the
/// descriptor. A copy from `pidfd_getfd` is safe to own, and is close-on-exec.
fn copy(number: RawFd) -> io::Result<OwnedFd> {
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    Ok(pidfd_getfd(own, number, PidfdGetfdFlags::empty())?)
}

/// Closes the file descriptor with this number, if this process inherited the descriptor.
///
/// Inherited descriptors are never close-on-exec, and descriptors that Rust's standard library
/// opens always are. A descriptor that is close-on-exec therefore has an owner in this process and
/// stays open. Programs that the plugin starts do not inherit it.
fn close(number: RawFd) -> io::Result<()> {
    if is_close_on_exec(number)? {
        return Ok(());
    }
    Ok(nix::unistd::close(number)?)
}

/// Returns whether a file descriptor is close-on-exec.
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
