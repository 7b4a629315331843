//! What is yet to be told, in order.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nri_proto::PluginId;

use super::Happening;

/// Something that the observers are told.
pub(super) enum OutboxItem {
    Happening(Happening),
    /// The plugins, in the order in which they are asked.
    Order(Vec<PluginId>),
}

/// Whoever changes something puts it in here under the lock under which it was changed, and has it
/// told when the lock is free: metrics are the runtime's own code.
#[derive(Default)]
pub(super) struct Outbox(Mutex<OutboxState>);

#[derive(Default)]
struct OutboxState {
    news: VecDeque<OutboxItem>,
    /// Someone is at it.
    is_being_told: bool,
}

impl Outbox {
    pub(super) fn push(&self, news: OutboxItem) {
        self.lock().news.push_back(news);
    }

    /// Tells all of it, or leaves that to who is at it already.
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

/// The right to send what is in the outbox. A panic gives it back.
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
