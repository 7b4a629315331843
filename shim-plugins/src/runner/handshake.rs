//! What passes between `start` and the server that it starts.
//!
//! The two ends of a socket pair. `start` says what to serve; the server says that it is ready, or why it never will be;
//! `start` answers containerd, and then says that it has. A server that does not hear this knows that nobody knows its
//! address, and ends.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::config::Configuration;
use crate::plugin::ShimContext;

/// What a server is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Assignment {
    pub(crate) context: ShimContext,
    pub(crate) configuration: Configuration,
}

/// An assignment holds what containerd said, and hardly more.
const MAX_ASSIGNMENT: u64 = 16 << 20;

/// How much of a reason is passed on.
const MAX_REASON: u64 = 64 << 10;

/// How long a server tries to say why it does not serve.
const REASON_LIMIT: Duration = Duration::from_secs(2);

const READY: u8 = b'r';
const FAILED: u8 = b'f';
const ANSWERED: u8 = b'a';

/// Why a server does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// It said why.
    #[error("{0}")]
    Failed(String),

    /// It ended without a word.
    #[error("the server ended before it was ready")]
    Ended,

    /// It was not ready in time.
    #[error("the server was not ready within {0:?}")]
    TooSlow(Duration),

    /// It could not be talked to.
    #[error("could not talk to the server")]
    Talk(#[source] io::Error),
}

/// `start`'s end.
pub(crate) struct HandshakeClient(UnixStream);

impl HandshakeClient {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self(stream)
    }

    /// Says what to serve, and waits until it is served.
    pub(crate) fn assign(&mut self, assignment: &Assignment, limit: Duration) -> Result<(), ServerError> {
        self.try_assign(assignment, limit).map_err(|error| {
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
                ServerError::TooSlow(limit)
            } else if is_end(&error) {
                ServerError::Ended
            } else {
                ServerError::Talk(error)
            }
        })?
    }

    fn try_assign(&mut self, assignment: &Assignment, limit: Duration) -> io::Result<Result<(), ServerError>> {
        let over = Instant::now() + limit;
        let text = serde_json::to_vec(assignment)?;
        self.0.set_write_timeout(Some(limit))?;
        self.0.write_all(&u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes())?;
        self.0.write_all(&text)?;
        // Zero would mean no limit.
        let rest = over.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        self.0.set_read_timeout(Some(rest))?;
        let mut answer = [0];
        self.0.read_exact(&mut answer)?;
        if answer == [READY] {
            return Ok(Ok(()));
        }
        let mut reason = Vec::new();
        let _ = (&self.0).take(MAX_REASON).read_to_end(&mut reason);
        Ok(Err(ServerError::Failed(String::from_utf8_lossy(&reason).into_owned())))
    }

    /// Says that containerd has its answer.
    pub(crate) fn answered(mut self) -> io::Result<()> {
        self.0.write_all(&[ANSWERED])
    }
}

/// The server's end.
pub(crate) struct HandshakeServer(tokio::net::UnixStream);

impl HandshakeServer {
    /// Takes it over for the runtime that this is called in.
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self(tokio::net::UnixStream::from_std(stream)?))
    }

    /// Waits for what to serve.
    pub(crate) async fn assignment(&mut self, limit: Duration) -> io::Result<Assignment> {
        let reading = async {
            let length = self.0.read_u64().await?;
            if length > MAX_ASSIGNMENT {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the assignment is too long"));
            }
            let mut text = Vec::new();
            (&mut self.0).take(length).read_to_end(&mut text).await?;
            Ok(serde_json::from_slice(&text)?)
        };
        within(limit, reading).await
    }

    /// Waits until nobody wants to know any more: `start` was cancelled.
    pub(crate) async fn gone(&self) {
        loop {
            match self.0.readable().await.and_then(|()| self.0.try_read(&mut [0])) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Says that it is served, and waits until containerd knows. `Err` means that it never will.
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

    /// Says why it will not be served.
    pub(crate) async fn failed(mut self, reason: &str) {
        let saying = async {
            self.0.write_u8(FAILED).await?;
            self.0.write_all(reason.as_bytes()).await
        };
        // Whoever started the server may be gone; then nobody wants to know.
        let _ = within(REASON_LIMIT, saying).await;
    }
}

async fn within<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Whether the other end is gone.
pub(super) fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
