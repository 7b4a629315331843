//! Initializes one plugin, within its time limit.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use tracing::{debug, warn};

use crate::config::Configuration;
use crate::plugin::{ErasedProvided, InitError, InitFailure, LoadedValues, Plugin, ShimContext};
use crate::server::panic_text;

/// Why a plugin was not initialized.
pub(super) enum NotLoaded {
    /// The plugin chose not to be loaded, for this reason.
    Skipped(String),
    Failed(InitFailure),
}

/// Initializes a plugin with its configuration and the values of the plugins that it asked for.
pub(super) async fn initialize(
    plugin: &Plugin,
    configuration: &Configuration,
    context: &Arc<ShimContext>,
    values: &LoadedValues,
) -> Result<ErasedProvided, NotLoaded> {
    let uri = plugin.uri();
    debug!(plugin = %uri, "loading plugin");
    let settings = configuration.settings(uri);
    let running = AssertUnwindSafe(async {
        let prepared = plugin.init.prepare(settings, context, values).map_err(NotLoaded::Failed)?;
        for key in prepared.unknown_keys {
            warn!(plugin = %uri, key, "plugin has no such setting");
        }
        prepared.init.await.map_err(|error| match error {
            InitError::Skip(reason) => NotLoaded::Skipped(reason),
            InitError::Failed(error) => NotLoaded::Failed(InitFailure::Returned(error)),
        })
    });
    match tokio::time::timeout(plugin.limit, running.catch_unwind()).await {
        Ok(Ok(provided)) => provided,
        Ok(Err(panic)) => Err(NotLoaded::Failed(InitFailure::Panicked { text: panic_text(&*panic) })),
        Err(_) => Err(NotLoaded::Failed(InitFailure::TooSlow { limit: plugin.limit })),
    }
}
