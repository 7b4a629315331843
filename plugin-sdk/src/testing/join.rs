//! How a plugin joins a node: it runs in a task, and connects over a pipe.

use std::sync::Arc;

use nri_adaptation::Happening;
use nri_proto::PluginId;
use nri_proto::plugin_id::PluginIdError;
use thiserror::Error;
use tokio::io::DuplexStream;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::connection::{Connection, Stream};
use crate::plugin::Plugin;
use crate::runner::{Options, RunError, Runner};

/// Errors from joining a [`Node`](super::Node).
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The id is not valid.
    #[error("{id:?} is not a valid plugin id")]
    Id {
        /// The id that was given.
        id: String,
        /// The reason why the id is invalid.
        source: PluginIdError,
    },
    /// The plugin ended before it had joined. The error is missing if the plugin ended without one,
    /// or panicked.
    #[error("the plugin ended before it had joined")]
    Ended(#[source] Option<RunError>),
    /// The runtime did not admit the plugin, for this reason.
    #[error("the runtime did not admit the plugin: {0}")]
    NotLetIn(String),
}

/// Creates the runner of a plugin on a pipe. The identity and the connection in `options` are
/// ignored.
pub(super) fn runner(
    id: &PluginId,
    plugin: Arc<dyn Plugin>,
    options: Options,
    pipe: DuplexStream,
) -> Result<Runner, JoinError> {
    let (reader, writer) = tokio::io::split(pipe);
    let options = Options {
        name: Some(id.name().to_owned()),
        index: Some(id.index().to_owned()),
        connection: Connection::Stream(Stream::over(reader, writer)),
        ..options
    };
    Ok(Runner::new(plugin, options).map_err(|error| JoinError::Ended(Some(error.into())))?.strict())
}

/// A plugin that runs in a task of its own.
pub(super) struct RunningPlugin {
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl RunningPlugin {
    /// Starts the task.
    pub(super) fn spawn(runner: Runner) -> Self {
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(runner.run(shutdown.clone()));
        Self { shutdown, task }
    }

    /// Waits until the node reports that the plugin has joined.
    pub(super) async fn joined(
        &mut self,
        id: &PluginId,
        happenings: &mut Receiver<Happening>,
    ) -> Result<(), JoinError> {
        loop {
            let happening = tokio::select! {
                happening = happenings.recv() => happening,
                ended = &mut self.task => return Err(JoinError::Ended(ended.ok().and_then(Result::err))),
            };
            match happening {
                Ok(Happening::Joined { plugin, .. }) if plugin == *id => return Ok(()),
                Ok(Happening::Closed { plugin, reason }) if plugin == *id => {
                    // If the plugin refused its configuration, its own error says more.
                    return Err(match (&mut self.task).await {
                        Ok(Err(error @ RunError::Configure(_))) => JoinError::Ended(Some(error)),
                        _ => JoinError::NotLetIn(reason),
                    });
                }
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return Err(JoinError::NotLetIn("the node was stopped".to_owned())),
            }
        }
    }

    /// Tells the plugin to stop.
    pub(super) fn cancel(&self) {
        self.shutdown.cancel();
    }

    /// Tells the plugin to stop, and waits until it has stopped.
    pub(super) async fn stop(self) {
        self.cancel();
        // The outcome of the plugin no longer matters.
        let _ = self.task.await;
    }
}
