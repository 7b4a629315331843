//! The handshake between `start` and the server that it starts, over a socket pair.
//!
//! First `start` sends the assignment. Then the server reports that it is ready, or why it failed.
//! Then `start` answers containerd, and confirms that to the server. A server without this
//! confirmation ends, because nobody knows its address.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::config::Configuration;
use crate::plugin::ShimContext;

/// The assignment that `start` gives the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Assignment {
    pub(crate) context: ShimContext,
    pub(crate) configuration: Configuration,
}

/// The largest encoded assignment, in bytes. It contains little but what containerd sent.
const MAX_ASSIGNMENT: u64 = 16 << 20;

/// The largest failure message that `start` reads, in bytes.
const MAX_REASON: u64 = 64 << 10;

/// How long the server may take to report its failure.
const REASON_LIMIT: Duration = Duration::from_secs(2);

/// The messages. No text begins with these bytes: the handshake is the standard output of the
/// server, and the program may print there before `Shim::run`.
const READY: u8 = 0x01;
const FAILED: u8 = 0x02;
const ANSWERED: u8 = 0x03;

/// How many bytes that are not of the handshake are quoted.
const MAX_QUOTE: usize = 60;

/// Why the server that `start` started does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The server reported this error.
    #[error("{0}")]
    Failed(String),

    /// The program printed something where the server reports.
    #[error(
        "the program printed {begin:?} to standard output before Shim::run, but containerd takes all of standard \
         output for the answer: print to standard error, or use tracing in plugins"
    )]
    Printed {
        /// The first bytes that it printed.
        begin: String,
    },

    /// The server ended without a report.
    #[error("the server ended before it was ready")]
    Ended,

    /// The server was not ready in time.
    #[error("the server was not ready within {0:?}")]
    TooSlow(Duration),

    /// The socket pair failed.
    #[error("could not communicate with the server")]
    Communicate(#[source] io::Error),
}

/// The end of the handshake that `start` has.
pub(crate) struct HandshakeClient(UnixStream);

impl HandshakeClient {
    /// Creates this end over one stream of a socket pair.
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self(stream)
    }

    /// Sends the assignment, and waits until the server is ready.
    pub(crate) fn assign(&mut self, assignment: &Assignment, limit: Duration) -> Result<(), ServerError> {
        self.try_assign(assignment, limit).map_err(|error| {
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
                ServerError::TooSlow(limit)
            } else if is_end(&error) {
                ServerError::Ended
            } else {
                ServerError::Communicate(error)
            }
        })?
    }

    fn try_assign(&mut self, assignment: &Assignment, limit: Duration) -> io::Result<Result<(), ServerError>> {
        let over = Instant::now() + limit;
        let text = serde_json::to_vec(assignment)?;
        self.0.set_write_timeout(Some(limit))?;
        self.0.write_all(&u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes())?;
        self.0.write_all(&text)?;
        // A timeout of zero would mean no timeout.
        let rest = over.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        self.0.set_read_timeout(Some(rest))?;
        let mut answer = [0];
        self.0.read_exact(&mut answer)?;
        match answer {
            [READY] => Ok(Ok(())),
            [FAILED] => {
                let mut reason = Vec::new();
                let _ = (&self.0).take(MAX_REASON).read_to_end(&mut reason);
                Ok(Err(ServerError::Failed(String::from_utf8_lossy(&reason).into_owned())))
            }
            [first] => Ok(Err(ServerError::Printed { begin: self.printed(first) })),
        }
    }

    /// Returns what the program printed in place of a report: the first line, or the begin of it.
    fn printed(&self, first: u8) -> String {
        let mut begin = [first; MAX_QUOTE];
        // The text of one print call has arrived as a whole.
        let n = (&self.0).read(&mut begin[1..]).unwrap_or(0);
        let printed = &begin[..=n];
        let end = printed.iter().position(|byte| matches!(byte, b'\n' | &READY | &FAILED)).unwrap_or(printed.len());
        String::from_utf8_lossy(&printed[..end]).into_owned()
    }

    /// Confirms that containerd has the address.
    pub(crate) fn answered(mut self) -> io::Result<()> {
        self.0.write_all(&[ANSWERED])
    }
}

/// The end of the handshake that the server has.
pub(crate) struct HandshakeServer(tokio::net::UnixStream);

impl HandshakeServer {
    /// Creates this end, and registers it with the current Tokio runtime.
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self(tokio::net::UnixStream::from_std(stream)?))
    }

    /// Waits for the assignment.
    pub(crate) async fn assignment(&mut self, limit: Duration) -> io::Result<Assignment> {
        let receiving = async {
            let length = self.0.read_u64().await?;
            if length > MAX_ASSIGNMENT {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the assignment is too long"));
            }
            let mut text = Vec::new();
            (&mut self.0).take(length).read_to_end(&mut text).await?;
            Ok(serde_json::from_slice(&text)?)
        };
        within(limit, receiving).await
    }

    /// Waits until `start` closes its end, which means that `start` was killed or gave up.
    pub(crate) async fn gone(&self) {
        loop {
            match self.0.readable().await.and_then(|()| self.0.try_read(&mut [0])) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Reports that the server is ready, and waits for the confirmation. An error means that
    /// containerd will never learn the address.
    pub(crate) async fn ready(mut self, limit: Duration) -> io::Result<()> {
        let answered = async {
            self.0.write_u8(READY).await?;
            match self.0.read_u8().await? {
                ANSWERED => Ok(()),
                _ => Err(io::ErrorKind::InvalidData.into()),
            }
        };
        within(limit, answered).await
    }

    /// Reports why the server does not serve.
    pub(crate) async fn failed(mut self, reason: &str) {
        let reporting = async {
            self.0.write_u8(FAILED).await?;
            self.0.write_all(reason.as_bytes()).await
        };
        // `start` may be gone. Then nobody reads the report.
        let _ = within(REASON_LIMIT, reporting).await;
    }
}

async fn within<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Returns whether an error means that the other end is gone.
pub(super) fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
