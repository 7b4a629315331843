use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// Whose turn it is with which container: one after the other, in the order in which they came.
///
/// There are two of these. In a turn of the domain the runtime sets limits, and no plugin is asked: so one may ask for an update from its own handler. A turn of
/// the hooks is around that: it is the kubelet's, from the question to plugins until the limits are set, and nobody else waits for it.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<String, Weak<Turn<()>>>>);

impl Turns {
    /// Waits until it is ours.
    pub(crate) async fn take(&self, id: &str) -> OwnedMutexGuard<()> {
        let turn = self.of(id);
        turn.lock_owned().await
    }

    /// Only those are kept that someone has or waits for.
    fn of(&self, id: &str) -> Arc<Turn<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(id).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(Turn::new(()));
        turns.insert(id.to_owned(), Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_turn_is_kept_no_longer_than_someone_has_it() {
        let turns = Turns::default();
        let held = turns.take("a").await;
        assert!(turns.of("a").try_lock().is_err());
        assert!(turns.of("b").try_lock().is_ok());
        drop(held);
        drop(turns.take("c").await);
        assert_eq!(turns.0.lock().unwrap().len(), 1, "those that nobody has are forgotten");
    }
}
