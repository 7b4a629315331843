//! Calls in progress that the controller does not wait for, by tag.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, ensure};
use tokio_util::sync::CancellationToken;

/// The calls in progress, by tag.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<HashMap<String, CancellationToken>>>);

impl Calls {
    /// Adds a call. The returned token is cancelled with the call.
    pub(crate) fn begin(&self, tag: &str) -> Result<CancellationToken> {
        let mut calls = self.calls();
        ensure!(!calls.contains_key(tag), "tag {tag:?} is in use");
        let token = CancellationToken::new();
        calls.insert(tag.to_owned(), token.clone());
        Ok(token)
    }

    pub(crate) fn end(&self, tag: &str) {
        self.calls().remove(tag);
    }

    /// Cancels a call. Returns false if there is none of this tag.
    pub(crate) fn cancel(&self, tag: &str) -> bool {
        let call = self.calls().remove(tag);
        call.inspect(CancellationToken::cancel).is_some()
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
