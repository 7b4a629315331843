//! The connection that a runtime gives to a plugin that it launches.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use rustix::net::{AddressFamily, SocketType, sockopt};
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
pub(crate) fn take(value: &str) -> Result<UnixStream, InheritedError> {
    let number = value.parse().ok().filter(|number: &RawFd| *number >= 0);
    let number = number.ok_or_else(|| InheritedError::NoNumber { value: value.to_owned() })?;
    let descriptor = copy(number).map_err(|source| InheritedError::NotOpen { number, source })?;
    if !is_connected_unix_socket(&descriptor) {
        return Err(InheritedError::NoSocket { number });
    }
    let stream = UnixStream::from(descriptor);
    stream.set_nonblocking(true).map_err(|source| InheritedError::NotOpen { number, source })?;
    Ok(stream)
}

/// A number alone can be anyone's descriptor, so to own it takes `unsafe`. The kernel gives a copy for the asking, one that
/// programs which the plugin starts do not inherit. The number itself stays open; the peer learns of the end all the same, since the
/// multiplexer shuts the socket down.
fn copy(number: RawFd) -> io::Result<OwnedFd> {
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    Ok(pidfd_getfd(own, number, PidfdGetfdFlags::empty())?)
}

fn is_connected_unix_socket(descriptor: &OwnedFd) -> bool {
    sockopt::socket_domain(descriptor) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(descriptor) == Ok(SocketType::STREAM)
        && rustix::net::getpeername(descriptor).is_ok()
}
