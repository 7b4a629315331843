//! What became of a plugin.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::request::DependencyError;

/// What became of a plugin.
#[derive(Clone, Debug)]
pub enum LoadOutcome {
    /// It does its work.
    Loaded,
    /// It chose not to be there.
    Skipped {
        /// Why.
        reason: String,
    },
    /// It could not be initialised.
    Failed {
        /// Why.
        cause: Arc<InitFailure>,
    },
    /// It is switched off.
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

/// Why a plugin could not be initialised.
#[derive(Debug, thiserror::Error)]
pub enum InitFailure {
    /// It said so.
    #[error("it returned an error")]
    Returned(#[source] Box<dyn Error + Send + Sync>),

    /// It panicked.
    #[error("it panicked: {text}")]
    Panicked {
        /// What it said.
        text: String,
    },

    /// It was not ready in time.
    #[error("it was not ready within {limit:?}")]
    TooSlow {
        /// How long it had.
        limit: Duration,
    },

    /// It requires what was not loaded.
    #[error("it lacks what it requires")]
    Dependency(#[from] DependencyError),

    /// Its configuration cannot be read.
    #[error("its configuration cannot be read")]
    Config(#[source] toml::de::Error),

    /// It contributes a service that another plugin contributes.
    #[error("it serves {service}, which {other} serves already")]
    DuplicateService {
        /// The service.
        service: String,
        /// Who serves it.
        other: crate::Uri,
    },

    /// It listens where other machines can call, and did not say that it means to.
    #[cfg(feature = "grpc")]
    #[error("it listens on {address}, which is no loopback; it takes tcp_from_anywhere to mean that")]
    FromAnywhere {
        /// Where it listens.
        address: std::net::SocketAddr,
    },
}

/// An error with all its causes, on one line.
pub(crate) struct ErrorChain<'a>(pub(crate) &'a (dyn Error + 'static));

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

/// What a plugin's initialisation returns instead of what it provides.
///
/// Every error becomes one with `?`.
#[derive(Debug)]
pub enum InitError {
    /// It chose not to be there; that is no failure.
    Skip(String),
    /// It could not.
    Failed(Box<dyn Error + Send + Sync>),
}

impl InitError {
    /// Says that the plugin chose not to be there, and why.
    pub fn skip(reason: impl Into<String>) -> Self {
        Self::Skip(reason.into())
    }

    /// Says that the plugin could not be initialised, and why.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::Failed(reason.into().into())
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for InitError {
    fn from(error: E) -> Self {
        Self::Failed(Box::new(error))
    }
}
