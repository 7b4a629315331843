//! Which containers were updated since when, so that a late answer does not take back what came after
//! its request.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nri_proto::PluginId;
use smallvec::SmallVec;

use crate::journal::ActId;

/// How many containers are remembered. With more, all requests so far count as older than an update.
const MAX_CONTAINERS: usize = 4096;
/// How many authors of updates are told apart for one container.
const MAX_AUTHORS: usize = 8;

/// Who updated a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    /// The plugins that answered in an operation, or the runtime that began it.
    Operation(ActId),
    /// A plugin, by itself or in a late answer.
    Plugin(PluginId),
    /// Several of them.
    Several,
}

/// The last updates of containers, numbered in the order in which they were made.
#[derive(Debug, Default)]
pub(crate) struct UpdateLog(Mutex<Log>);

#[derive(Debug, Default)]
struct Log {
    /// The number of the last update.
    last: u64,
    /// What was updated up to this number is forgotten.
    forgotten: u64,
    containers: HashMap<String, SmallVec<[(Author, u64); 1]>>,
}

impl UpdateLog {
    /// Returns the number of the last update.
    pub(crate) fn now(&self) -> u64 {
        self.lock().last
    }

    /// Containers were updated.
    pub(crate) fn add<'c>(&self, containers: impl IntoIterator<Item = &'c str>, author: &Author) {
        let mut log = self.lock();
        for container in containers {
            log.add(container, author);
        }
    }

    /// A container was removed.
    pub(crate) fn remove(&self, container: &str) {
        self.lock().containers.remove(container);
    }

    /// Whether a container was updated since, but for the updates of one operation and one plugin.
    pub(crate) fn is_updated_since(&self, container: &str, since: u64, act: Option<ActId>, plugin: &PluginId) -> bool {
        let log = self.lock();
        let is_other = |author: &Author| match author {
            Author::Operation(other) => Some(*other) != act,
            Author::Plugin(other) => other != plugin,
            Author::Several => true,
        };
        let updates = log.containers.get(container).into_iter().flatten();
        log.forgotten > since || updates.into_iter().any(|(author, number)| *number > since && is_other(author))
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn add(&mut self, container: &str, author: &Author) {
        self.last += 1;
        if let Some(updates) = self.containers.get_mut(container) {
            updates.retain(|(other, _)| other != author);
            let is_full = updates.len() >= MAX_AUTHORS;
            if is_full {
                updates.clear();
            }
            return updates.push((if is_full { Author::Several } else { author.clone() }, self.last));
        }
        if self.containers.len() >= MAX_CONTAINERS {
            self.containers.clear();
            self.forgotten = self.last;
        }
        self.containers.insert(container.to_owned(), SmallVec::from_elem((author.clone(), self.last), 1));
    }
}

#[cfg(test)]
mod tests {
    use super::{ActId, Author, MAX_AUTHORS, MAX_CONTAINERS, UpdateLog};

    fn plugin(number: usize) -> nri_proto::PluginId {
        format!("{number:02}-a").parse().unwrap()
    }

    #[test]
    fn an_update_counts_for_all_requests_before_it_but_those_of_its_author() {
        let log = UpdateLog::default();
        let before = log.now();
        log.add(["c"], &Author::Operation(ActId(1)));
        assert!(log.is_updated_since("c", before, Some(ActId(2)), &plugin(1)));
        assert!(!log.is_updated_since("c", before, Some(ActId(1)), &plugin(1)), "the operation of the request");
        assert!(!log.is_updated_since("c", log.now(), Some(ActId(2)), &plugin(1)), "a request after it");
        assert!(!log.is_updated_since("d", before, None, &plugin(1)), "another container");
        log.add(["c"], &Author::Plugin(plugin(1)));
        assert!(!log.is_updated_since("c", before, Some(ActId(1)), &plugin(1)), "the plugin itself");
        assert!(log.is_updated_since("c", before, Some(ActId(1)), &plugin(2)));
        log.remove("c");
        assert!(!log.is_updated_since("c", before, None, &plugin(2)));
    }

    #[test]
    fn what_is_forgotten_counts_as_updated() {
        let log = UpdateLog::default();
        for number in 0..=MAX_AUTHORS {
            log.add(["c"], &Author::Plugin(plugin(number)));
        }
        assert!(log.is_updated_since("c", 0, None, &plugin(0)));
        let ids: Vec<_> = (0..=MAX_CONTAINERS).map(|number| number.to_string()).collect();
        log.add(ids.iter().map(String::as_str), &Author::Operation(ActId(1)));
        assert!(log.is_updated_since("never updated", 0, None, &plugin(0)));
        assert!(!log.is_updated_since("never updated", log.now(), None, &plugin(0)));
    }
}
