//! Calls of a domain, which may hang or panic.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use thiserror::Error;
use tokio::time::{Instant, timeout_at};

use crate::domain::DomainError;

/// Why a domain has not done something.
#[derive(Debug, Error)]
pub(crate) enum DomainCallError {
    #[error("it took too long")]
    TooLong,
    #[error("it panicked")]
    Panicked,
    #[error(transparent)]
    Domain(DomainError),
}

/// What a domain's future yields, in time.
pub(crate) async fn bounded<T>(until: Instant, future: impl Future<Output = T>) -> Result<T, DomainCallError> {
    match timeout_at(until, AssertUnwindSafe(future).catch_unwind()).await {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(_panic)) => Err(DomainCallError::Panicked),
        Err(_elapsed) => Err(DomainCallError::TooLong),
    }
}

/// The same for what may have gone, which is no trouble.
pub(crate) async fn done(
    until: Instant,
    future: impl Future<Output = Result<(), DomainError>>,
) -> Result<(), DomainCallError> {
    match bounded(until, future).await? {
        Ok(()) | Err(DomainError::Gone) => Ok(()),
        Err(error @ DomainError::Failed(_)) => Err(DomainCallError::Domain(error)),
    }
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
