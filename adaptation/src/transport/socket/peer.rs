//! Who is at the other end.

use std::io;

use tokio::net::UnixStream;

/// Who connected, as the kernel saw it at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The process, if it is one that we can see. For people: it may have ended, and its number be
    /// another's.
    pub pid: Option<i32>,
}

impl Peer {
    /// Who is at the other end of a connection.
    pub(super) fn of(stream: &UnixStream) -> io::Result<Self> {
        let credentials = stream.peer_cred()?;
        // A process in a namespace that we do not see has the number 0.
        let pid = credentials.pid().filter(|pid| *pid > 0);
        Ok(Self { uid: credentials.uid(), gid: credentials.gid(), pid })
    }

    /// Says whether the peer's user is one of these.
    #[must_use]
    pub fn is_allowed(&self, uids: &[u32]) -> bool {
        uids.contains(&self.uid)
    }
}
