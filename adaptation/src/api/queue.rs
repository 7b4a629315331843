//! Whose turn it is: requests about one pod go one after the other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

type Queue = Arc<tokio::sync::Mutex<()>>;

/// The pods that are being asked about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns(Arc<Mutex<HashMap<Arc<str>, Queue>>>);

/// The turn of a pod. Held while plugins are asked about it: an update that a plugin starts by
/// itself takes no turn, so it may call back meanwhile.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Turns,
    pod: Arc<str>,
    /// There until it is dropped.
    queue: Option<Queue>,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits for the pod's turn, behind those who asked for it before.
    pub(crate) async fn take(&self, pod: Arc<str>) -> Turn {
        let queue = Arc::clone(self.lock().entry(Arc::clone(&pod)).or_default());
        // A turn that is given up while it waits cleans up as one that was had.
        let mut turn = Turn { turns: self.clone(), pod, queue: Some(Arc::clone(&queue)), guard: None };
        turn.guard = Some(queue.lock_owned().await);
        turn
    }

    /// Whether someone has the pod's turn, or waits for it.
    pub(crate) fn has(&self, pod: &str) -> bool {
        self.lock().contains_key(pod)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Queue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.lock().len()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        drop(self.guard.take());
        let mut turns = self.turns.lock();
        // Only the map's is left: nobody waits. Others are made and dropped under this lock.
        drop(self.queue.take());
        if turns.get(&self.pod).is_some_and(|queue| Arc::strong_count(queue) == 1) {
            turns.remove(&self.pod);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::Turns;

    #[tokio::test(start_paused = true)]
    async fn turns_are_had_in_the_order_in_which_they_were_asked_for() {
        let turns = Turns::default();
        let first = turns.take("pod".into()).await;
        let (sender, mut had) = tokio::sync::mpsc::unbounded_channel();
        for number in 0..10 {
            let (turns, sender) = (turns.clone(), sender.clone());
            tokio::spawn(async move {
                let _turn = turns.take("pod".into()).await;
                sender.send(number).unwrap();
                tokio::time::sleep(Duration::from_secs(1)).await;
            });
            tokio::task::yield_now().await;
        }
        assert!(had.try_recv().is_err(), "the first turn is still held");
        drop(first);
        for number in 0..10 {
            assert_eq!(had.recv().await, Some(number));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pods_do_not_wait_for_each_other() {
        let turns = Turns::default();
        let _one = turns.take("one".into()).await;
        timeout(Duration::from_secs(1), turns.take("two".into())).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_kept_for_a_pod_that_nobody_asks_about() {
        let turns = Turns::default();
        let held = turns.take("pod".into()).await;
        assert!(timeout(Duration::from_secs(1), turns.take("pod".into())).await.is_err());
        drop(held);
        drop(turns.take("pod".into()).await);
        assert_eq!(turns.len(), 0);
    }
}
