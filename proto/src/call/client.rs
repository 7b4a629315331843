//! The calling end.

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

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// The full name of the service.
    pub service: &'static str,
    /// The name of the method in it.
    pub name: &'static str,
}

/// Calls the services that a peer serves on a channel. Clones share the channel.
///
/// It runs one task that reads replies. The task ends with the connection, or when the last clone
/// is dropped.
#[derive(Clone, Debug)]
pub struct Client(Arc<ClientState>);

#[derive(Debug)]
struct ClientState {
    sender: MessageSender,
    pending_calls: Arc<PendingCalls>,
}

impl Client {
    /// A client on this channel.
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
    /// See [`CallError`]. After [`CallError::TimedOut`] nobody waits for the reply any more; use
    /// [`Client::send`] where someone should.
    pub async fn call(&self, method: Method, payload: Bytes, timeout: Duration) -> Result<Bytes, CallError> {
        self.send(method, payload, timeout).await?.reply().await
    }

    /// Sends an encoded request within `timeout`. The reply is waited for with what is returned,
    /// until the same deadline or longer.
    ///
    /// When this fails, or is dropped, nothing was sent and nothing will be.
    ///
    /// # Errors
    ///
    /// [`CallError::TimedOut`] if the peer does not read what was sent before, or has not replied to
    /// a hundred requests yet; [`CallError::TooLarge`] and [`CallError::Closed`].
    pub async fn send(&self, method: Method, payload: Bytes, timeout: Duration) -> Result<PendingReply, CallError> {
        let now = Instant::now();
        let deadline = now.checked_add(timeout).unwrap_or_else(|| now + Duration::from_secs(u32::MAX.into()));
        // What goes before the payload has a length that depends on the time; this is enough.
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

    /// What it waits for.
    #[cfg(test)]
    pub(super) fn pending_calls(&self) -> &PendingCalls {
        &self.0.pending_calls
    }
}

impl ClientState {
    /// Begins a call: takes its id and makes its frames.
    fn frames(
        &self,
        method: Method,
        payload: Bytes,
        deadline: Instant,
        slot: OwnedSemaphorePermit,
    ) -> Result<(StartedCall, [Bytes; 4]), CallError> {
        let remaining = deadline.saturating_duration_since(Instant::now());
        // Zero on the wire means that there is no deadline.
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

type StartedCall = (u32, tokio::sync::oneshot::Receiver<super::pending_calls::CallResult>);

impl Drop for ClientState {
    fn drop(&mut self) {
        self.sender.abandon();
    }
}

/// Reads replies and hands them to whoever waits for them.
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
            ReceivedMessage::Whole(header, payload, held) if header.type_ == MESSAGE_TYPE_RESPONSE => {
                let outcome = || CountedReply::outcome(reply(&payload), held);
                (header.stream_id, self.pending_calls.settle(header.stream_id, outcome))
            }
            ReceivedMessage::Oversized(header) if header.type_ == MESSAGE_TYPE_RESPONSE => {
                let breach = "it is larger than a message may be";
                (header.stream_id, self.pending_calls.settle(header.stream_id, || Err(CallError::Malformed { breach })))
            }
            ReceivedMessage::Whole(header, ..) | ReceivedMessage::Oversized(header) => (header.stream_id, false),
        };
        if !settled {
            debug!(id, "dropping a message that nobody waits for");
        }
    }
}

/// A reply that counts as received until whoever waits for it lets it go.
struct CountedReply {
    reply: Bytes,
    _held: Reservation,
}

impl CountedReply {
    /// Replies that are smaller than this are not worth it: there are at most [`super::pending_calls::MAX_UNANSWERED`].
    const SMALL: usize = 4096;

    /// Counts the payload of a reply, whether the peer accepted the request or refused it.
    fn outcome(outcome: Result<Bytes, CallError>, held: Reservation) -> Result<Bytes, CallError> {
        match outcome {
            Ok(reply) => Ok(Self::over(reply, held)),
            Err(CallError::Refused { code, message, payload }) => {
                Err(CallError::Refused { code, message, payload: Self::over(payload, held) })
            }
            Err(error) => Err(error),
        }
    }

    fn over(reply: Bytes, held: Reservation) -> Bytes {
        if reply.len() < Self::SMALL { reply } else { Bytes::from_owner(Self { reply, _held: held }) }
    }
}

impl AsRef<[u8]> for CountedReply {
    fn as_ref(&self) -> &[u8] {
        &self.reply
    }
}

impl Drop for ReplyReader {
    fn drop(&mut self) {
        // Also when the runtime drops the task before it has run to its end.
        self.pending_calls.close(&Closed::Local);
    }
}
