//! The queue of events that were not published yet.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nri_proto::PluginId;

use super::Happening;

/// An item that is logged, counted and sent to subscribers.
pub(super) enum OutboxItem {
    Happening(Happening),
    /// The plugins, in the order in which they are asked.
    Order(Vec<PluginId>),
}

/// A queue of events. A change is queued under the lock that guards the change, and published when
/// the lock is free, because metrics are code of the runtime.
#[derive(Default)]
pub(super) struct Outbox(Mutex<OutboxState>);

#[derive(Default)]
struct OutboxState {
    news: VecDeque<OutboxItem>,
    /// Whether a caller of [`Outbox::empty`] is publishing.
    is_being_told: bool,
}

impl Outbox {
    pub(super) fn push(&self, news: OutboxItem) {
        self.lock().news.push_back(news);
    }

    /// Publishes all items in order. If another caller is publishing, leaves the items to that
    /// caller.
    pub(super) fn empty(&self, mut tell: impl FnMut(OutboxItem)) {
        if std::mem::replace(&mut self.lock().is_being_told, true) {
            return;
        }
        let _telling = OutboxTurn(self);
        while let Some(news) = self.next() {
            tell(news);
        }
    }

    fn next(&self) -> Option<OutboxItem> {
        let mut waiting = self.lock();
        let next = waiting.news.pop_front();
        waiting.is_being_told = next.is_some();
        next
    }

    fn lock(&self) -> MutexGuard<'_, OutboxState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to publish. If publishing panics, the drop of this value lets the next caller publish.
struct OutboxTurn<'a>(&'a Outbox);

impl Drop for OutboxTurn<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().is_being_told = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::Outbox;
    use super::OutboxItem;

    fn order(news: OutboxItem) -> usize {
        let OutboxItem::Order(order) = news else { panic!("nothing else was put in") };
        order.len()
    }

    fn plugins(count: usize) -> OutboxItem {
        OutboxItem::Order(vec!["10-a".parse().unwrap(); count])
    }

    #[test]
    fn what_comes_in_while_something_is_told_is_told_after_it() {
        let (outbox, mut told) = (Outbox::default(), Vec::new());
        outbox.push(plugins(1));
        outbox.push(plugins(2));
        outbox.empty(|news| {
            told.push(order(news));
            if told.len() == 1 {
                outbox.push(plugins(3));
                outbox.empty(|_| panic!("someone else is at it"));
            }
        });
        assert_eq!(told, [1, 2, 3]);
    }

    #[test]
    fn metrics_that_panic_keep_nothing_else_from_being_told() {
        let (outbox, mut told) = (Outbox::default(), Vec::new());
        outbox.push(plugins(1));
        outbox.push(plugins(2));
        catch_unwind(AssertUnwindSafe(|| outbox.empty(|_| panic!("on purpose")))).unwrap_err();
        outbox.empty(|news| told.push(order(news)));
        assert_eq!(told, [2]);
    }
}
