//! How a plugin joins a node.

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

/// Why a plugin did not join.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JoinError {
    /// It has no id.
    #[error("{id:?} is not what a plugin can be called")]
    Id {
        /// What it was to be called.
        id: String,
        /// Why not.
        source: PluginIdError,
    },
    /// It ended before it was in.
    #[error("the plugin ended before it had joined")]
    Ended(#[source] Option<RunError>),
    /// The runtime did not let it in.
    #[error("the plugin was not let in: {0}")]
    NotLetIn(String),
}

/// Makes a plugin ready to run over a pipe. Its name and its connection do not come from the options.
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

/// A plugin that runs in a task.
pub(super) struct RunningPlugin {
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl RunningPlugin {
    pub(super) fn spawn(runner: Runner) -> Self {
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(runner.run(shutdown.clone()));
        Self { shutdown, task }
    }

    /// Waits until the plugin has joined.
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
                    // The plugin knows better why, if it was the plugin's doing.
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

    pub(super) fn cancel(&self) {
        self.shutdown.cancel();
    }

    /// Tells the plugin to stop, and waits until it has.
    pub(super) async fn stop(self) {
        self.cancel();
        // How it ended does not matter any more.
        let _ = self.task.await;
    }
}
