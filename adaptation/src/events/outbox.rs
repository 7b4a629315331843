//! What is yet to be told, in order.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nri_proto::PluginId;

use super::Happening;

/// What is to be told.
pub(super) enum News {
    Happening(Happening),
    /// The plugins, in the order in which they are asked.
    Order(Vec<PluginId>),
}

/// Whoever changes something puts it in here under the lock under which it was changed, and has it told when the lock is free: metrics are
/// the runtime's own code.
#[derive(Default)]
pub(super) struct Outbox(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    news: VecDeque<News>,
    /// Someone is at it.
    is_being_told: bool,
}

impl Outbox {
    pub(super) fn push(&self, news: News) {
        self.lock().news.push_back(news);
    }

    /// Tells all of it, or leaves that to who is at it already.
    pub(super) fn empty(&self, mut tell: impl FnMut(News)) {
        if std::mem::replace(&mut self.lock().is_being_told, true) {
            return;
        }
        let _telling = Telling(self);
        while let Some(news) = self.next() {
            tell(news);
        }
    }

    fn next(&self) -> Option<News> {
        let mut waiting = self.lock();
        let next = waiting.news.pop_front();
        waiting.is_being_told = next.is_some();
        next
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Someone tells. If that panics, others may go on.
struct Telling<'a>(&'a Outbox);

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().is_being_told = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::News;
    use super::Outbox;

    fn order(news: News) -> usize {
        let News::Order(order) = news else { panic!("nothing else was put in") };
        order.len()
    }

    fn plugins(count: usize) -> News {
        News::Order(vec!["10-a".parse().unwrap(); count])
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
