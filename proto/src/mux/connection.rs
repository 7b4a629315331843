//! The state of a connection, shared by the pump, the channels and the [`Mux`](super::Mux).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::io::AsyncWrite;
use tokio_util::task::TaskTracker;

use super::budget::ReceiveBudget;
use super::inbox::Inbox;
use super::outbox::Outbox;
use super::{ChannelId, Closed, Limits};

/// The state of a connection.
///
/// Its locks are held for a lookup, a copy, or one write that does not block.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) limits: Limits,
    /// The pump, and the tasks that read messages from channels.
    pub(super) tasks: TaskTracker,
    channels: Vec<OpenChannel>,
    outbox: Mutex<Outbox>,
    admitted: AtomicBool,
}

#[derive(Debug)]
struct OpenChannel {
    id: ChannelId,
    inbox: Mutex<Inbox>,
}

impl Connection {
    pub(super) fn new(ids: &[ChannelId], limits: Limits, writer: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        for (at, id) in ids.iter().enumerate() {
            assert!(!ids[..at].contains(id), "channel {} is named twice", id.get());
        }
        let budget = ReceiveBudget::new(limits.received);
        let channel = |&id| OpenChannel { id, inbox: Mutex::new(Inbox::new(Arc::clone(&budget))) };
        Self {
            limits,
            tasks: TaskTracker::new(),
            channels: ids.iter().map(channel).collect(),
            outbox: Mutex::new(Outbox::new(Box::new(writer), ids.len(), limits.unsent)),
            admitted: AtomicBool::new(false),
        }
    }

    /// Returns the index of a channel, or `None` if it is not open.
    pub(super) fn position(&self, id: ChannelId) -> Option<usize> {
        self.channels.iter().position(|channel| channel.id == id)
    }

    pub(super) fn id(&self, at: usize) -> ChannelId {
        self.channels[at].id
    }

    pub(super) fn inbox(&self, at: usize) -> MutexGuard<'_, Inbox> {
        self.channels[at].inbox.lock()
    }

    pub(super) fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock()
    }

    pub(super) fn admit(&self) {
        self.admitted.store(true, Ordering::Release);
    }

    pub(super) fn is_admitted(&self) -> bool {
        self.admitted.load(Ordering::Acquire)
    }

    /// Returns the reason why the connection ended, or `None` while it is open.
    pub(super) fn reason(&self) -> Option<Closed> {
        self.outbox().reason()
    }

    /// Makes the pump write the queued data and then close the connection.
    pub(super) fn finish(&self) {
        self.outbox().finish();
    }

    /// Closes the connection and all its channels. The first reason is kept.
    pub(super) fn close(&self, reason: Closed) {
        let reason = {
            let mut outbox = self.outbox();
            outbox.close(&reason);
            outbox.reason().unwrap_or(reason)
        };
        for at in 0..self.channels.len() {
            self.inbox(at).close(&reason);
        }
    }
}
