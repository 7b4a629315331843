//! Calls of a domain, which may hang or panic.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use thiserror::Error;
use tokio::time::{Instant, timeout_at};

use crate::domain::DomainError;

/// Why a call of a domain has failed.
#[derive(Debug, Error)]
pub(crate) enum DomainCallError {
    #[error("the call timed out")]
    Timeout,
    #[error("the call panicked")]
    Panicked,
    #[error(transparent)]
    Domain(DomainError),
}

/// Waits for a call of a domain until `deadline`, and catches a panic of the domain.
pub(crate) async fn call<T>(deadline: Instant, future: impl Future<Output = T>) -> Result<T, DomainCallError> {
    match timeout_at(deadline, AssertUnwindSafe(future).catch_unwind()).await {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(_panic)) => Err(DomainCallError::Panicked),
        Err(_elapsed) => Err(DomainCallError::Timeout),
    }
}

/// Like [`call`], for a change of a container. A container that is gone is no failure.
pub(crate) async fn change(
    deadline: Instant,
    future: impl Future<Output = Result<(), DomainError>>,
) -> Result<(), DomainCallError> {
    match call(deadline, future).await? {
        Ok(()) | Err(DomainError::Gone) => Ok(()),
        Err(error @ DomainError::Failed(_)) => Err(DomainCallError::Domain(error)),
    }
}
