//! A plugin, wherever it runs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nri_proto::event::{EventMask, WireEvents};
use nri_proto::mux::Closed;
use nri_proto::{CreateReply, FailurePolicy, StopReply, Update, UpdateReply, Verdict};
use thiserror::Error;
use ttrpc::Code;

use crate::api::request::Request;
use crate::api::snapshot::Snapshot;

/// What the runtime says of itself when it configures a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Introduction {
    /// The plugin's own configuration, verbatim.
    pub config: String,
    /// The runtime's name.
    pub runtime_name: String,
    /// The runtime's version.
    pub runtime_version: String,
    /// The version of NRI that the runtime speaks.
    pub nri_version: String,
    /// How long a plugin may take to register.
    pub registration_timeout: Duration,
    /// How long a plugin may take to answer.
    pub request_timeout: Duration,
}

/// What a plugin answers when it is configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscription {
    /// The events that it wants, and bits that we have no event for.
    pub events: WireEvents,
    /// What it declares should happen when it does not answer.
    pub declared: FailurePolicy,
}

impl From<EventMask> for Subscription {
    /// A plugin that wants these events, and declares nothing.
    fn from(known: EventMask) -> Self {
        Self { events: WireEvents { known, unknown: 0 }, declared: FailurePolicy::default() }
    }
}

/// What a plugin answers to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// It has heard it.
    Heard,
    /// To a container being created.
    Create(Box<CreateReply>),
    /// To a container being updated.
    Update(UpdateReply),
    /// To a container that stops.
    Stop(StopReply),
    /// To what all plugins together want of a new container.
    Verdict(Verdict),
}

impl From<CreateReply> for Reply {
    fn from(reply: CreateReply) -> Self {
        Self::Create(Box::new(reply))
    }
}

/// Why there is no reply.
#[derive(Clone, Debug, Error)]
pub enum PluginError {
    /// The plugin answered no.
    #[error("{message}")]
    Refused {
        /// With this code.
        code: Code,
        /// And this text.
        message: String,
    },
    /// The plugin's connection was gone before it could be asked.
    #[error("it had left before it was asked")]
    Left(#[source] Closed),
    /// The plugin's connection is gone, and what it was asked has no answer.
    #[error("its connection is gone")]
    Gone(#[source] Closed),
    /// The plugin sent what is not an answer.
    #[error("it broke the protocol: {0}")]
    Breach(&'static str),
    /// The request is too large to be sent.
    #[error("the request has {size} bytes, at most {limit} can be sent")]
    TooLarge {
        /// Its size.
        size: usize,
        /// The largest that can be sent.
        limit: usize,
    },
    /// The plugin did not even take the request.
    #[error("it did not read the request in time")]
    NotTaken,
}

impl PluginError {
    /// An answer that says no.
    #[must_use]
    pub fn refused(message: impl Into<String>) -> Self {
        Self::Refused { code: Code::UNKNOWN, message: message.into() }
    }
}

/// A plugin: behind a connection, or built into the runtime.
///
/// One that is built in changes containers by what it answers. To ask for something by itself it
/// has to be behind a connection: one in the same process may connect to the socket, too.
///
/// Whoever asks decides how long to wait. A future of [`Plugin::ask`] that is not in time is kept
/// and waited for: as long as it runs, the plugin owes an answer.
#[async_trait]
pub trait Plugin: Send + Sync + 'static {
    /// Tells the plugin about the runtime, and learns what it wants.
    async fn configure(&self, introduction: Introduction) -> Result<Subscription, PluginError>;

    /// Tells the plugin what there is. Returns the updates that it wants.
    async fn synchronize(&self, snapshot: Snapshot) -> Result<Vec<Update>, PluginError> {
        drop(snapshot);
        Ok(Vec::new())
    }

    /// Tells or asks the plugin something: to a create, an update, a stop and a proposal there is a
    /// [`Reply`] of that name, to all else [`Reply::Heard`], which to the first three says that it
    /// wants nothing. `timeout` is how long the answer will be waited for; it may come later.
    async fn ask(self: Arc<Self>, request: Arc<Request>, timeout: Duration) -> Result<Reply, PluginError>;

    /// Tells the plugin that the runtime goes away.
    async fn shutdown(&self) {}

    /// Cuts the plugin off.
    fn close(&self) {}

    /// Waits until the plugin is gone by itself.
    async fn gone(&self) -> Closed {
        std::future::pending().await
    }
}
