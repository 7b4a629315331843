//! The credentials of a peer.

use std::io;

use tokio::net::UnixStream;

/// The credentials of the process that connected, as the kernel recorded them at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
    /// The process id, if the process is visible in the runtime's pid namespace. For information
    /// only: the process may have ended, and another process may have the same id.
    pub pid: Option<i32>,
}

impl Peer {
    /// Returns the credentials of the peer of a connection.
    pub(super) fn of(stream: &UnixStream) -> io::Result<Self> {
        let credentials = stream.peer_cred()?;
        // The kernel reports 0 for a process that is not visible in this pid namespace.
        let pid = credentials.pid().filter(|pid| *pid > 0);
        Ok(Self { uid: credentials.uid(), gid: credentials.gid(), pid })
    }

    /// Returns whether `uids` contains the peer's user.
    #[must_use]
    pub fn is_allowed(&self, uids: &[u32]) -> bool {
        uids.contains(&self.uid)
    }
}
