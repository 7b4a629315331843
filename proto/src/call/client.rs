//! The ttrpc client.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tracing::debug;
use ttrpc::proto::MESSAGE_TYPE_RESPONSE;

use super::envelope::{reply, request_head, request_header};
use super::pending_calls::PendingCalls;
use super::{CallError, MAX_MESSAGE, MESSAGE_HEADER_LENGTH, PendingReply};
use crate::mux::{Channel, Closed, GO_BUFFER, MessageSender, ReceivedMessage, Reservation};

/// The RPC that a request calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// The full name of the service.
    pub service: &'static str,
    /// The name of the method in the service.
    pub name: &'static str,
}

/// A client for the services that a peer serves on a channel. Clones share the channel.
///
/// Each client runs one task that receives replies. The task ends with the connection, or when the
/// last clone is dropped.
#[derive(Clone, Debug)]
pub struct Client(Arc<ClientState>);

#[derive(Debug)]
struct ClientState {
    sender: MessageSender,
    pending_calls: Arc<PendingCalls>,
}

impl Client {
    /// Creates a client on this channel, and spawns the task that receives replies.
    #[must_use]
    pub fn new(channel: Channel) -> Self {
        let (sender, pending_calls) = (channel.sender(), Arc::new(PendingCalls::new()));
        sender.spawn(ReplyReader { channel, pending_calls: Arc::clone(&pending_calls) }.run());
        Self(Arc::new(ClientState { sender, pending_calls }))
    }

    /// Sends an encoded request and waits for the encoded reply, both within `timeout`.
    ///
    /// # Errors
    ///
    /// Fails with a [`CallError`]. After [`CallError::TimedOut`] the reply is discarded. Use
    /// [`Client::send`] to receive a late reply.
    pub async fn call(&self, method: Method, payload: Bytes, timeout: Duration) -> Result<Bytes, CallError> {
        self.send(method, payload, timeout).await?.reply().await
    }

    /// Sends an encoded request within `timeout`, and returns a handle to wait for the reply.
    ///
    /// If this fails or the future is dropped, nothing is sent.
    ///
    /// # Errors
    ///
    /// Fails with [`CallError::TimedOut`] if the peer does not read earlier data in time, or if a
    /// hundred earlier requests still have no reply. Also fails with [`CallError::TooLarge`] and
    /// [`CallError::Closed`].
    pub async fn send(&self, method: Method, payload: Bytes, timeout: Duration) -> Result<PendingReply, CallError> {
        let now = Instant::now();
        let deadline = now.checked_add(timeout).unwrap_or_else(|| now + Duration::from_secs(u32::MAX.into()));
        // The length of the head depends on the remaining time; 64 bytes are enough.
        let room = payload.len() + method.service.len() + method.name.len() + 64;
        let sending = async {
            let slot = self.0.pending_calls.slot().await?;
            self.0.sender.send(room, || self.0.frames(method, payload, deadline, slot)).await
        };
        let sent = tokio::time::timeout_at(deadline, sending).await.unwrap_or(Err(CallError::TimedOut));
        if let Err(CallError::Closed(reason @ Closed::IdsUsedUp)) = &sent {
            self.0.sender.close(reason.clone());
        }
        let (id, reply) = sent?;
        Ok(PendingReply::new(id, deadline, Arc::clone(&self.0.pending_calls), reply))
    }

    /// Returns the calls without a reply.
    #[cfg(test)]
    pub(super) fn pending_calls(&self) -> &PendingCalls {
        &self.0.pending_calls
    }
}

impl ClientState {
    /// Starts a call: takes a stream id and builds the frames of the request.
    fn frames(
        &self,
        method: Method,
        payload: Bytes,
        deadline: Instant,
        slot: OwnedSemaphorePermit,
    ) -> Result<(StartedCall, [Bytes; 4]), CallError> {
        let remaining = deadline.saturating_duration_since(Instant::now());
        // Zero on the wire stands for no deadline.
        let timeout_nano = i64::try_from(remaining.as_nanos()).unwrap_or(i64::MAX).max(1);
        let head = request_head(method, timeout_nano, payload.len());
        let size = head.len() + payload.len();
        if size > MAX_MESSAGE || head.len() > GO_BUFFER - MESSAGE_HEADER_LENGTH {
            return Err(CallError::TooLarge { size, limit: MAX_MESSAGE });
        }
        let (id, reply) = self.pending_calls.begin(slot)?;
        Ok(((id, reply), self.sender.frames(request_header(id, size), &head, payload)))
    }
}

/// The stream id of a call, and the receiver of its reply.
type StartedCall = (u32, tokio::sync::oneshot::Receiver<super::pending_calls::CallResult>);

impl Drop for ClientState {
    fn drop(&mut self) {
        self.sender.abandon();
    }
}

/// The task that receives replies and passes them to their callers.
struct ReplyReader {
    channel: Channel,
    pending_calls: Arc<PendingCalls>,
}

impl ReplyReader {
    async fn run(mut self) {
        let reason = loop {
            match self.channel.message().await {
                Ok(message) => self.settle(message),
                Err(reason) => break reason,
            }
        };
        self.pending_calls.close(&reason);
    }

    fn settle(&self, message: ReceivedMessage) {
        let (id, settled) = match message {
            ReceivedMessage::Whole(header, payload, reservation) if header.type_ == MESSAGE_TYPE_RESPONSE => {
                let outcome = || CountedReply::outcome(reply(&payload), reservation);
                (header.stream_id, self.pending_calls.settle(header.stream_id, outcome))
            }
            ReceivedMessage::Oversized(header) if header.type_ == MESSAGE_TYPE_RESPONSE => {
                let breach = "it is larger than a message may be";
                (header.stream_id, self.pending_calls.settle(header.stream_id, || Err(CallError::Malformed { breach })))
            }
            ReceivedMessage::Whole(header, ..) | ReceivedMessage::Oversized(header) => (header.stream_id, false),
        };
        if !settled {
            debug!(id, "message without a waiting caller dropped");
        }
    }
}

/// The payload of a reply. It counts against the receive budget until the caller drops it.
struct CountedReply {
    reply: Bytes,
    _reservation: Reservation,
}

impl CountedReply {
    /// Smaller replies are not counted. Their number is bounded by
    /// [`MAX_UNANSWERED`](super::pending_calls::MAX_UNANSWERED).
    const SMALL: usize = 4096;

    /// Makes the payload of a reply count, whether the peer accepted or refused the request.
    fn outcome(outcome: Result<Bytes, CallError>, reservation: Reservation) -> Result<Bytes, CallError> {
        match outcome {
            Ok(reply) => Ok(Self::over(reply, reservation)),
            Err(CallError::Refused { code, message, payload }) => {
                Err(CallError::Refused { code, message, payload: Self::over(payload, reservation) })
            }
            Err(error) => Err(error),
        }
    }

    fn over(reply: Bytes, reservation: Reservation) -> Bytes {
        if reply.len() < Self::SMALL { reply } else { Bytes::from_owner(Self { reply, _reservation: reservation }) }
    }
}

impl AsRef<[u8]> for CountedReply {
    fn as_ref(&self) -> &[u8] {
        &self.reply
    }
}

impl Drop for ReplyReader {
    fn drop(&mut self) {
        // This also covers a task that the Tokio runtime drops before it has completed.
        self.pending_calls.close(&Closed::Local);
    }
}
