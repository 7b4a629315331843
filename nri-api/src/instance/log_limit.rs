//! A limit of the warnings about what plugins want in one request.

use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::warn;

/// How many warnings are logged one by one.
const MAX_WARNINGS: usize = 10;

/// Limits the warnings about one request, in which a plugin may ask for any number of changes. The
/// first warnings are logged; when this value is dropped, the number of the others is logged. The
/// ledger records all of them.
#[derive(Debug, Default)]
pub(crate) struct LogLimit(AtomicUsize);

impl LogLimit {
    /// Counts a warning. Returns whether the warning is to be logged.
    pub(crate) fn has_room(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) < MAX_WARNINGS
    }
}

impl Drop for LogLimit {
    fn drop(&mut self) {
        let count = self.0.get_mut().saturating_sub(MAX_WARNINGS);
        if count > 0 {
            warn!(count, "further changes that plugins requested have failed");
        }
    }
}

/// Returns the part of a container's id that is logged: plugins may send ids of any length.
pub(crate) fn excerpt(id: &str) -> &str {
    const MAX_BYTES: usize = 80;
    &id[..id.floor_char_boundary(MAX_BYTES)]
}
