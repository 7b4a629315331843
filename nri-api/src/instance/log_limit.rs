//! The log of what could not be done in one request.

use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::warn;

/// How many are logged one by one.
const MOST: usize = 10;

/// LogLimit about what plugins want in one request, of which there may be as many as a plugin likes: the first ones are
/// logged, and at the end how many more there were. All are in the ledger.
#[derive(Debug, Default)]
pub(crate) struct LogLimit(AtomicUsize);

impl LogLimit {
    /// Whether one more is logged.
    pub(crate) fn has_room(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) < MOST
    }
}

impl Drop for LogLimit {
    fn drop(&mut self) {
        let count = self.0.get_mut().saturating_sub(MOST);
        if count > 0 {
            warn!(count, "more of what plugins want was not done");
        }
    }
}

/// As much of a container's id as is logged. Plugins write what they like.
pub(crate) fn excerpt(id: &str) -> &str {
    const LONGEST: usize = 80;
    &id[..id.floor_char_boundary(LONGEST)]
}
