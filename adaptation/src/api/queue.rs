//! A queue for each key, in the order of arrival.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

type Waiters = VecDeque<oneshot::Sender<QueueTurn>>;

/// A queue for each key: one caller at a time has the turn of a key, the others wait in the order
/// in which they called [`enqueue`](KeyedQueue::enqueue).
///
/// Clones share their queues. A key takes no memory while no caller has or awaits its turn.
///
/// ```
/// # use nri_adaptation::queue::KeyedQueue;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let queue = KeyedQueue::default();
/// let (first, second) = (queue.enqueue("pod"), queue.enqueue("pod"));
/// let turn = first.turn().await;
/// drop(turn);
/// second.turn().await;
/// assert!(!queue.is_busy("pod"));
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct KeyedQueue(Arc<Mutex<HashMap<Arc<str>, Waiters>>>);

/// A place in the queue of a key. A place that is dropped is given up.
#[derive(Debug)]
#[must_use = "a place that is dropped is given up"]
pub struct QueuePlace(oneshot::Receiver<QueueTurn>);

/// The turn of a key. The next caller has the turn when this value is dropped.
#[derive(Debug)]
#[must_use = "a turn ends when it is dropped"]
pub struct QueueTurn {
    queue: KeyedQueue,
    key: Arc<str>,
}

impl KeyedQueue {
    /// Takes a place behind all earlier callers with this key. The place is taken when this
    /// returns.
    pub fn enqueue(&self, key: impl Into<Arc<str>>) -> QueuePlace {
        let key = key.into();
        let (sender, place) = oneshot::channel();
        {
            let mut queues = self.0.lock();
            if let Some(waiting) = queues.get_mut(&key) {
                // Removes places that were given up, so that they do not make the queue grow.
                if waiting.len() == waiting.capacity() {
                    waiting.retain(|sender| !sender.is_closed());
                }
                waiting.push_back(sender);
                return QueuePlace(place);
            }
            queues.insert(Arc::clone(&key), Waiters::new());
        }
        // The receiver exists, so the send succeeds.
        let _ = sender.send(QueueTurn { queue: self.clone(), key });
        QueuePlace(place)
    }

    /// Returns whether a caller has or awaits the turn of a key.
    #[must_use]
    pub fn is_busy(&self, key: &str) -> bool {
        self.0.lock().contains_key(key)
    }

    /// Returns the next caller that awaits the turn of a key. If there is none, removes the queue.
    fn next(&self, key: &str) -> Option<oneshot::Sender<QueueTurn>> {
        let mut queues = self.0.lock();
        let next = queues.get_mut(key).and_then(Waiters::pop_front);
        if next.is_none() {
            queues.remove(key);
        }
        next
    }
}

impl QueuePlace {
    /// Waits for the turn.
    pub async fn turn(self) -> QueueTurn {
        self.0.await.expect("a queue never drops the sender of a place")
    }
}

impl Drop for QueueTurn {
    fn drop(&mut self) {
        // Skips callers that have given up their places. The lock is not held while the turn is
        // sent, because a turn without a receiver is dropped here.
        while let Some(next) = self.queue.next(&self.key) {
            if next.is_closed() {
                continue;
            }
            let turn = QueueTurn { queue: self.queue.clone(), key: Arc::clone(&self.key) };
            if let Err(unclaimed) = next.send(turn) {
                // The caller gave up at this very moment, and this drop hands the turn over.
                drop(unclaimed);
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::KeyedQueue;

    #[tokio::test(start_paused = true)]
    async fn turns_are_had_in_the_order_in_which_they_were_asked_for() {
        let queue = KeyedQueue::default();
        let first = queue.enqueue("pod").turn().await;
        let (sender, mut had) = tokio::sync::mpsc::unbounded_channel();
        let places: Vec<_> = (0..10).map(|number| (number, queue.enqueue("pod"))).collect();
        // The order is that of the places, whichever is awaited first.
        for (number, place) in places.into_iter().rev() {
            let sender = sender.clone();
            tokio::spawn(async move {
                let _turn = place.turn().await;
                sender.send(number).unwrap();
                tokio::time::sleep(Duration::from_secs(1)).await;
            });
        }
        tokio::task::yield_now().await;
        assert!(had.try_recv().is_err(), "the first turn is still held");
        drop(first);
        for number in 0..10 {
            assert_eq!(had.recv().await, Some(number));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pods_do_not_wait_for_each_other() {
        let queue = KeyedQueue::default();
        let _one = queue.enqueue("one").turn().await;
        drop(timeout(Duration::from_secs(1), queue.enqueue("two").turn()).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_kept_for_a_pod_that_nobody_asks_about() {
        let queue = KeyedQueue::default();
        let held = queue.enqueue("pod").turn().await;
        assert!(timeout(Duration::from_secs(1), queue.enqueue("pod").turn()).await.is_err());
        drop(held);
        assert!(!queue.is_busy("pod"));
        drop(queue.enqueue("pod"));
        assert!(!queue.is_busy("pod"), "a turn that nobody waited for");
    }

    #[tokio::test]
    async fn places_that_were_given_up_are_skipped_however_many_there_are() {
        let queue = KeyedQueue::default();
        let held = queue.enqueue("pod").turn().await;
        let mut places: Vec<_> = (0..100_000).map(|_| queue.enqueue("pod")).collect();
        let last = places.pop().unwrap();
        drop(places);
        drop(held);
        drop(timeout(Duration::from_secs(1), last.turn()).await.unwrap());
        assert!(!queue.is_busy("pod"));
    }
}
