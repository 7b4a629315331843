//! The interface to a plugin, whether it is connected or built in.

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

/// The content of the Configure request: facts about the runtime, and the configuration of the
/// plugin.
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
    /// How long the plugin may take to register.
    pub registration_timeout: Duration,
    /// How long the plugin may take to answer a request.
    pub request_timeout: Duration,
}

/// The answer of a plugin to its configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscription {
    /// The events that the plugin subscribes to, and bits that stand for no known event.
    pub events: WireEvents,
    /// The failure policy that the plugin declares for itself.
    pub declared: FailurePolicy,
}

impl From<EventMask> for Subscription {
    /// Subscribes to these events, without a declared failure policy.
    fn from(known: EventMask) -> Self {
        Self { events: WireEvents { known, unknown: 0 }, declared: FailurePolicy::default() }
    }
}

/// The reply of a plugin to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The plugin accepts the request and asks for no changes.
    Heard,
    /// The reply to CreateContainer.
    Create(Box<CreateReply>),
    /// The reply to UpdateContainer.
    Update(UpdateReply),
    /// The reply to StopContainer.
    Stop(StopReply),
    /// The verdict of a validator on the merged adjustments.
    Verdict(Verdict),
}

impl From<CreateReply> for Reply {
    fn from(reply: CreateReply) -> Self {
        Self::Create(Box::new(reply))
    }
}

/// Why a plugin gave no reply.
#[derive(Clone, Debug, Error)]
pub enum PluginError {
    /// The plugin refused the request.
    #[error("{message}")]
    Refused {
        /// The status code of the answer.
        code: Code,
        /// The text of the answer.
        message: String,
    },
    /// The plugin's connection was closed before the request was sent.
    #[error("the plugin disconnected before the request was sent")]
    Left(#[source] Closed),
    /// The plugin's connection was closed before the plugin answered.
    #[error("the plugin disconnected before it answered")]
    Gone(#[source] Closed),
    /// The plugin sent an invalid answer.
    #[error("the plugin violated the protocol: {0}")]
    Breach(&'static str),
    /// The request is too large to be sent.
    #[error("the request has {size} bytes, at most {limit} can be sent")]
    TooLarge {
        /// The size of the request in bytes.
        size: usize,
        /// The largest size that can be sent, in bytes.
        limit: usize,
    },
    /// The plugin did not read the request from its connection in time.
    #[error("the plugin did not read the request in time")]
    NotTaken,
}

impl PluginError {
    /// Creates the error of a plugin that refuses a request.
    #[must_use]
    pub fn refused(message: impl Into<String>) -> Self {
        Self::Refused { code: Code::UNKNOWN, message: message.into() }
    }
}

/// The interface to a plugin. A plugin is connected to the runtime, or built into it.
///
/// A built-in plugin changes containers only by its replies. To ask for updates by itself, a plugin
/// needs a connection; a plugin in the runtime's process may connect to the socket, too.
///
/// The caller decides how long to wait. A future of [`Plugin::ask`] that is not ready in time is
/// kept: the answer is overdue until the future is ready.
#[async_trait]
pub trait Plugin: Send + Sync + 'static {
    /// Tells the plugin about the runtime. Returns the events that the plugin subscribes to.
    async fn configure(&self, introduction: Introduction) -> Result<Subscription, PluginError>;

    /// Sends the plugin the pods and containers that exist. Returns the updates that the plugin
    /// asks for.
    async fn synchronize(&self, snapshot: Snapshot) -> Result<Vec<Update>, PluginError> {
        drop(snapshot);
        Ok(Vec::new())
    }

    /// Sends a request to the plugin. CreateContainer, UpdateContainer, StopContainer and
    /// ValidateContainerAdjustment are answered by the [`Reply`] for them, all other events by
    /// [`Reply::Heard`]. `Heard` is also a reply to the first three: the plugin asks for no
    /// changes. The caller waits for `timeout`; the answer may come later.
    async fn ask(self: Arc<Self>, request: Arc<Request>, timeout: Duration) -> Result<Reply, PluginError>;

    /// Tells the plugin that the runtime shuts down.
    async fn shutdown(&self) {}

    /// Closes the connection to the plugin.
    fn close(&self) {}

    /// Waits until the plugin has disconnected by itself.
    async fn gone(&self) -> Closed {
        std::future::pending().await
    }
}
