//! Records which containers were updated or removed, so that a late reply does not revert changes
//! that were made after its request.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nri_proto::PluginId;
use smallvec::SmallVec;

use crate::api::operation::OperationId;

/// The number of containers that are remembered. If it is exceeded, late replies to all requests
/// made so far count as outdated for every container.
const MAX_CONTAINERS: usize = 4096;
/// The number of removed containers that are remembered. If it is exceeded, the oldest removal is
/// forgotten, and late replies to requests from before that removal count as outdated for every
/// container.
const MAX_REMOVED: usize = 512;
/// The number of authors of updates that are distinguished per container.
const MAX_AUTHORS: usize = 8;

/// The author of an update of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    /// The plugins that replied in an operation, or the runtime that began the operation.
    Operation(OperationId),
    /// A plugin, by its own request or in a late reply.
    Plugin(PluginId),
    /// Several authors.
    Several,
}

/// The request of a late reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LateReply<'a> {
    pub(crate) operation: Option<OperationId>,
    /// The number of the last update when the first plugin was asked.
    pub(crate) since: u64,
    pub(crate) plugin: &'a PluginId,
    /// The number that [`UpdateLog::arrive`] gave to the reply.
    pub(crate) arrived: u64,
}

/// The last updates of containers, numbered in the order in which they were made.
#[derive(Debug, Default)]
pub(crate) struct UpdateLog(Mutex<UpdateHistory>);

#[derive(Debug, Default)]
struct UpdateHistory {
    /// The last number that was assigned, to an update or to a reply.
    last: u64,
    /// Updates up to this number are forgotten.
    forgotten: u64,
    containers: HashMap<String, SmallVec<[MadeUpdate; 1]>>,
    /// The containers that were removed last, with the number of the removal.
    removed: VecDeque<(String, u64)>,
}

/// The last update of a container by one author.
#[derive(Clone, Debug)]
struct MadeUpdate {
    author: Author,
    number: u64,
    /// The number of the reply that asked for the update, if the author is a plugin. Late replies
    /// may be applied in another order than they arrived.
    arrived: u64,
}

impl UpdateLog {
    /// Returns the last number that was assigned.
    pub(crate) fn now(&self) -> u64 {
        self.lock().last
    }

    /// Assigns a number to a reply of a plugin that arrives now.
    pub(crate) fn arrive(&self) -> u64 {
        let mut log = self.lock();
        log.last += 1;
        log.last
    }

    /// Records updates of containers. `arrived` is the number of the plugin's reply; `None` for an
    /// operation.
    pub(crate) fn add<'c>(&self, containers: impl IntoIterator<Item = &'c str>, author: &Author, arrived: Option<u64>) {
        let mut log = self.lock();
        for container in containers {
            log.add(container, author, arrived);
        }
    }

    /// Records the removal of a container. Another container may use its id later.
    pub(crate) fn remove(&self, container: &str) {
        self.lock().remove(container);
    }

    /// Returns whether a late reply is outdated for a container: since the request, the container
    /// was removed, or updated by another operation or plugin, or updated by a later reply of the
    /// same plugin.
    pub(crate) fn is_updated_since(&self, container: &str, asked: LateReply<'_>) -> bool {
        let log = self.lock();
        let is_newer = |made: &MadeUpdate| match &made.author {
            Author::Operation(operation) => Some(*operation) != asked.operation && made.number > asked.since,
            Author::Plugin(plugin) if plugin == asked.plugin => made.arrived > asked.arrived,
            Author::Plugin(_) | Author::Several => made.number > asked.since,
        };
        let is_removed = || log.removed.iter().any(|(id, number)| *number > asked.since && id == container);
        log.forgotten > asked.since || log.containers.get(container).into_iter().flatten().any(is_newer) || is_removed()
    }

    fn lock(&self) -> MutexGuard<'_, UpdateHistory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UpdateHistory {
    fn remove(&mut self, container: &str) {
        self.last += 1;
        self.containers.remove(container);
        if self.removed.len() >= MAX_REMOVED
            && let Some((_, number)) = self.removed.pop_front()
        {
            self.forgotten = self.forgotten.max(number);
        }
        self.removed.push_back((container.to_owned(), self.last));
    }

    fn add(&mut self, container: &str, author: &Author, arrived: Option<u64>) {
        self.last += 1;
        let (number, author) = (self.last, author.clone());
        let made = MadeUpdate { author, number, arrived: arrived.unwrap_or(number) };
        if let Some(updates) = self.containers.get_mut(container) {
            updates.retain(|other| other.author != made.author);
            let is_full = updates.len() >= MAX_AUTHORS;
            if is_full {
                updates.clear();
            }
            let author = if is_full { Author::Several } else { made.author };
            return updates.push(MadeUpdate { author, ..made });
        }
        if self.containers.len() >= MAX_CONTAINERS {
            self.containers.clear();
            self.forgotten = self.last;
        }
        self.containers.insert(container.to_owned(), SmallVec::from_elem(made, 1));
    }
}

#[cfg(test)]
mod tests {
    use super::Author;
    use super::LateReply;
    use super::MAX_AUTHORS;
    use super::MAX_CONTAINERS;
    use super::MAX_REMOVED;
    use super::OperationId;
    use super::UpdateLog;

    fn plugin(number: usize) -> nri_proto::PluginId {
        format!("{number:02}-a").parse().unwrap()
    }

    fn is_updated(log: &UpdateLog, container: &str, since: u64, operation: u64, plugin: &nri_proto::PluginId) -> bool {
        let (operation, arrived) = (Some(OperationId(operation)), u64::MAX);
        log.is_updated_since(container, LateReply { operation, since, plugin, arrived })
    }

    #[test]
    fn an_update_counts_for_all_requests_before_it_but_those_of_its_author() {
        let log = UpdateLog::default();
        let before = log.now();
        log.add(["c"], &Author::Operation(OperationId(1)), None);
        assert!(is_updated(&log, "c", before, 2, &plugin(1)));
        assert!(!is_updated(&log, "c", before, 1, &plugin(1)), "the operation of the request");
        assert!(!is_updated(&log, "c", log.now(), 2, &plugin(1)), "a request after it");
        assert!(!is_updated(&log, "d", before, 2, &plugin(1)), "another container");
        log.add(["c"], &Author::Plugin(plugin(1)), None);
        assert!(!is_updated(&log, "c", before, 1, &plugin(1)), "the plugin itself");
        assert!(is_updated(&log, "c", before, 1, &plugin(2)));
        log.remove("c");
        assert!(!is_updated(&log, "c", log.now(), 2, &plugin(2)), "another container of that id");
    }

    #[test]
    fn a_container_that_was_removed_counts_as_updated_for_all_requests_before_that() {
        let log = UpdateLog::default();
        let before = log.now();
        log.remove("c");
        assert!(is_updated(&log, "c", before, 1, &plugin(1)));
        assert!(!is_updated(&log, "d", before, 1, &plugin(1)), "another container");
        for number in 0..MAX_REMOVED {
            log.remove(&number.to_string());
        }
        assert_eq!(log.lock().removed.len(), MAX_REMOVED);
        assert!(is_updated(&log, "c", before, 1, &plugin(1)), "it is forgotten, so all count");
        assert!(!is_updated(&log, "c", log.now(), 1, &plugin(1)));
    }

    #[test]
    fn of_what_one_plugin_asks_for_the_last_counts_whenever_it_is_applied() {
        let (log, plugin) = (UpdateLog::default(), plugin(1));
        let (first, second) = (log.arrive(), log.arrive());
        let asked = |arrived| LateReply { operation: None, since: 0, plugin: &plugin, arrived };
        log.add(["c"], &Author::Plugin(plugin.clone()), Some(first));
        assert!(!log.is_updated_since("c", asked(second)), "the second was asked for later");
        log.add(["c"], &Author::Plugin(plugin.clone()), Some(second));
        assert!(log.is_updated_since("c", asked(first)), "the first would take it back");
    }

    #[test]
    fn what_is_forgotten_counts_as_updated() {
        let log = UpdateLog::default();
        for number in 0..=MAX_AUTHORS {
            log.add(["c"], &Author::Plugin(plugin(number)), None);
        }
        assert!(is_updated(&log, "c", 0, 1, &plugin(0)));
        let ids: Vec<_> = (0..=MAX_CONTAINERS).map(|number| number.to_string()).collect();
        log.add(ids.iter().map(String::as_str), &Author::Operation(OperationId(1)), None);
        assert!(is_updated(&log, "never updated", 0, 1, &plugin(0)));
        assert!(!is_updated(&log, "never updated", log.now(), 1, &plugin(0)));
    }
}
