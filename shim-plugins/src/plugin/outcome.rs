//! The outcome of loading a plugin, and the errors of its initialization.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::request::DependencyError;
use crate::graph::Uri;

/// The outcome of loading a plugin.
#[derive(Clone, Debug)]
pub enum LoadOutcome {
    /// The plugin was initialized.
    Loaded,
    /// The plugin chose not to be loaded.
    Skipped {
        /// The reason that the plugin gave.
        reason: String,
    },
    /// The plugin could not be initialized.
    Failed {
        /// The cause.
        cause: Arc<InitFailure>,
    },
    /// The configuration disables the plugin.
    Disabled,
}

impl fmt::Display for LoadOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loaded => f.write_str("ok"),
            Self::Skipped { reason } => write!(f, "skipped: {reason}"),
            Self::Failed { cause } => write!(f, "failed: {}", ErrorChain(&**cause)),
            Self::Disabled => f.write_str("disabled"),
        }
    }
}

/// Why a plugin could not be initialized.
#[derive(Debug, thiserror::Error)]
pub enum InitFailure {
    /// The initialization returned an error.
    #[error("initialization returned an error")]
    Returned(#[source] Box<dyn Error + Send + Sync>),

    /// The initialization panicked.
    #[error("initialization panicked: {text}")]
    Panicked {
        /// The message of the panic.
        text: String,
    },

    /// The initialization exceeded its limit.
    #[error("initialization did not finish within {limit:?}")]
    TooSlow {
        /// The limit.
        limit: Duration,
    },

    /// A plugin that is required was not loaded.
    #[error("a dependency is missing")]
    Dependency(#[from] DependencyError),

    /// The configuration of the plugin is invalid.
    #[error("invalid configuration{}", place.as_ref().map_or_else(String::new, |place| format!(" ({place})")))]
    Config {
        /// The file and the line of the setting, as far as they are known.
        place: Option<String>,
        /// The cause.
        source: toml::de::Error,
    },

    /// Another plugin contributes the same service.
    #[error("service {service} is already served by {other}")]
    DuplicateService {
        /// The service.
        service: String,
        /// The plugin that serves the service.
        other: Uri,
    },

    /// A TCP listener is not on the loopback, and the plugin did not allow that.
    #[cfg(feature = "grpc")]
    #[error("listener address {address} is not a loopback address; use tcp_from_anywhere to allow it")]
    FromAnywhere {
        /// The address of the listener.
        address: std::net::SocketAddr,
    },
}

/// Formats an error with all its causes, on one line.
pub(crate) struct ErrorChain<'a>(pub(crate) &'a (dyn Error + 'static));

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one_line = |error: &dyn Error| error.to_string().trim().replace('\n', " ");
        write!(f, "{}", one_line(self.0))?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {}", one_line(error))?;
            cause = error.source();
        }
        Ok(())
    }
}

/// The result of an initialization that provides nothing.
///
/// Every error converts to [`InitError::Failed`] with `?`.
#[derive(Debug)]
pub enum InitError {
    /// The plugin chose not to be loaded, for this reason. This is not a failure.
    Skip(String),
    /// The plugin could not be initialized.
    Failed(Box<dyn Error + Send + Sync>),
}

impl InitError {
    /// Creates an error that leaves the plugin out, with a reason.
    pub fn skip(reason: impl Into<String>) -> Self {
        Self::Skip(reason.into())
    }

    /// Creates an error that fails the plugin, with a reason.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::Failed(reason.into().into())
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for InitError {
    fn from(error: E) -> Self {
        Self::Failed(Box::new(error))
    }
}
