//! What everything in one adaptation shares.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use nri_proto::{Container, Event, Owners, PluginId, Pod, Update};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, Semaphore, watch};

use crate::api::decision::Decision;
use crate::api::operation::{OperationId, OperationOutcome};
use crate::api::queue::KeyedQueue;
use crate::api::request::Request;
use crate::api::source::Source;
use crate::config::Config;
use crate::config::policy::{Declared, Identity, PluginKey};
use crate::config::snapshot::ConfigSnapshot;
use crate::events::{Happening, Watchers};
use crate::merge::MergedCreate;
use crate::operation::OperationOptions;
use crate::operation::prior_state::{PriorStates, TouchedObjects};
use crate::operation::state::{KeptRequest, OperationState};
use crate::reply::update_log::Author;
use crate::session::PluginSession;
use crate::session::faults::Mistake;
use crate::session::progress::RelayProgress;
use crate::session::roster::Roster;
use crate::session::services::Services;

pub(crate) struct Shared {
    pub(crate) services: Arc<Services>,
    pub(crate) turns: KeyedQueue,
    /// Requests that wait for required plugins, by pod.
    pub(crate) waiting: KeyedQueue,
    /// Places for plugins that another one has replaced, and that may finish what they do.
    pub(crate) leaving: Arc<Semaphore>,
    /// How many plugins are being synchronized.
    pub(crate) joining: watch::Sender<usize>,
    /// Rung when a plugin was let in, or was not.
    pub(crate) arrived: Notify,
    /// Rung when an operation has ended that a plugin on its way out may take part in.
    pub(crate) ended: Notify,
    plugins: Mutex<Plugins>,
    /// The number of the regime of the roster.
    config: AtomicU64,
    /// How many snapshots are being taken.
    snapshots: AtomicUsize,
}

/// How many plugins may be on their way out at a time. A peer that comes again and again is not
/// given time each time.
const MAX_LEAVING: usize = 8;

/// The plugins, and whether there may be more. One lock: a plugin is in the roster that is closed
/// at the end, or not at all; and an operation has it among its participants, or among those who
/// will hear of it.
pub(crate) struct Plugins {
    pub(crate) roster: Arc<Roster>,
    pub(crate) stopped: bool,
    /// Those who have registered and are not let in yet.
    pub(crate) arriving: Vec<Arriving>,
    /// Those for whom all that happens is kept.
    pub(crate) joining: Vec<Joiner>,
    /// The operations that something was asked in.
    pub(crate) open: HashMap<u64, Arc<OperationState>>,
    /// Those that have failed and are being undone.
    undoing: Vec<Arc<OperationState>>,
    n_acts: u64,
    /// Plugins that are asked no more but in operations that they take part in.
    pub(crate) leaving: Vec<Arc<PluginSession>>,
}

impl Plugins {
    /// None yet.
    fn under(config: Arc<ConfigSnapshot>) -> Self {
        let roster = Arc::new(Roster::new(config));
        Self {
            roster,
            stopped: false,
            arriving: Vec::new(),
            joining: Vec::new(),
            open: HashMap::new(),
            undoing: Vec::new(),
            n_acts: 0,
            leaving: Vec::new(),
        }
    }

    /// Whether a plugin takes part in an operation that is open.
    pub(crate) fn asks_in_any(&self, entry: &Arc<PluginSession>) -> bool {
        self.open.values().any(|operation| operation.participants.contains(entry))
    }

    /// Whether a plugin may still be told that something came to nothing.
    pub(crate) fn undoes_for(&self, entry: &Arc<PluginSession>) -> bool {
        self.undoing.iter().any(|operation| operation.participants.contains(entry))
    }
}

/// A plugin that has registered and is not admitted yet.
pub(crate) struct Arriving {
    pub(crate) id: PluginId,
    pub(crate) identity: Identity,
}

/// A plugin that joins.
pub(crate) struct Joiner {
    pub(crate) entry: Arc<PluginSession>,
    /// What is touched while its snapshot is taken.
    touched: Option<TouchedObjects>,
}

/// Why plugins are closed at the end.
pub(crate) const GOES_AWAY: &str = "the runtime goes away";

/// How many times it is looked at an operation until it has been open for too long.
const LOOKS: u32 = 4;

impl Shared {
    pub(crate) fn new(config: Config, source: Arc<dyn Source>, watchers: Watchers) -> Arc<Self> {
        let snapshot = Arc::new(ConfigSnapshot::new(0, &config));
        Arc::new(Self {
            services: Arc::new(Services::new(config, source, watchers, Arc::clone(&snapshot))),
            turns: KeyedQueue::default(),
            waiting: KeyedQueue::default(),
            leaving: Arc::new(Semaphore::new(MAX_LEAVING)),
            joining: watch::Sender::new(0),
            arrived: Notify::new(),
            ended: Notify::new(),
            config: AtomicU64::new(snapshot.number),
            plugins: Mutex::new(Plugins::under(snapshot)),
            snapshots: AtomicUsize::new(0),
        })
    }

    /// The plugins that there are now.
    pub(crate) fn roster(&self) -> Arc<Roster> {
        Arc::clone(&self.lock().roster)
    }

    /// Begins an operation: fixes who takes part. Those who join hear of it when it has ended.
    pub(crate) fn begin(&self, pod: &Arc<Pod>, nature: OperationOptions) -> Arc<OperationState> {
        let mut plugins = self.lock();
        plugins.n_acts += 1;
        let id = plugins.n_acts;
        let operation =
            Arc::new(OperationState::new(OperationId(id), Arc::clone(pod), nature, Arc::clone(&plugins.roster)));
        for joiner in &plugins.joining {
            operation.wait_for(&joiner.entry);
        }
        plugins.open.insert(id, Arc::clone(&operation));
        operation
    }

    /// Those who take part in an operation, on the terms that hold now.
    pub(crate) fn participants(&self, operation: &OperationState) -> Arc<Roster> {
        if operation.participants.config().number == self.config.load(Ordering::Acquire) {
            return Arc::clone(&operation.participants);
        }
        let plugins = self.lock();
        Arc::new(operation.participants.under(plugins.roster.config()))
    }

    /// From now on this is what the operator says. Returns how many plugins are asked on other
    /// terms for it.
    pub(crate) fn reload(&self, config: &Config) -> usize {
        let (n_changed, not_permitted) = {
            let mut plugins = self.lock();
            let config = Arc::new(ConfigSnapshot::new(plugins.roster.config().number + 1, config));
            plugins.joining.iter().for_each(|joiner| _ = joiner.entry.adopt(&config.policies));
            plugins.leaving.iter().for_each(|entry| _ = entry.adopt(&config.policies));
            let changed = plugins.roster.entries().iter().filter(|entry| entry.adopt(&config.policies));
            let n_changed = changed.inspect(|entry| self.services.watchers.note(entry.policy())).count();
            plugins.roster = Arc::new(plugins.roster.under(&config));
            self.services.set_snapshot(Arc::clone(&config));
            self.config.store(config.number, Ordering::Release);
            let joining = plugins.joining.iter().map(|joiner| &joiner.entry);
            let there =
                plugins.roster.entries().iter().map(|entry| &entry.entry).chain(&plugins.leaving).chain(joining);
            let refused = there.filter_map(|entry| {
                let refused = config.policies.check_identity(&entry.id, entry.identity).err()?;
                Some((Arc::clone(entry), refused))
            });
            (n_changed, refused.collect::<Vec<_>>())
        };
        self.services.watchers.flush();
        for (entry, refused) in not_permitted {
            entry.close(&format!("since a reload it is not permitted: {refused}"));
        }
        // Who waits for a plugin may wait for nobody now.
        self.arrived.notify_waiters();
        n_changed
    }

    /// A request is made in an operation. Returns its place there.
    pub(crate) fn asks(
        &self,
        operation: &OperationState,
        event: Event,
        before: Option<PriorStates>,
        kept: KeptRequest,
        progress: Option<RelayProgress>,
    ) -> usize {
        let place = operation.ask(event, before, kept, progress);
        // Whoever takes a snapshot says so first and then looks at the operations, so one of us
        // sees the other.
        if self.snapshots.load(Ordering::SeqCst) != 0 {
            let mut plugins = self.lock();
            plugins
                .joining
                .iter_mut()
                .filter_map(|joiner| joiner.touched.as_mut())
                .for_each(|all| operation.touched(all));
        }
        place
    }

    /// What a request will have come to that is made in an operation now.
    pub(crate) fn decision(&self, operation: &OperationState) -> Decision {
        Decision::new(operation.id(), operation.fate(), self.services.update_log.now())
    }

    /// A request has gone on, with these claims and updates of plugins. Late answers to earlier
    /// requests leave alone the containers that it updates.
    pub(crate) fn goes_on(
        &self,
        decision: &Decision,
        event: Event,
        container: Option<&Container>,
        claims: Owners,
        updates: &[Update],
    ) {
        decision.goes_on(claims);
        let id = container.map(|container| &*container.id);
        if let (Event::RemoveContainer, Some(id)) = (event, id) {
            self.services.update_log.remove(id);
        }
        let own = id.filter(|_| event == Event::UpdateContainer);
        let Some(operation) = decision.operation.filter(|_| own.is_some() || !updates.is_empty()) else { return };
        let others = updates.iter().map(|update| &*update.container_id);
        self.services.update_log.add(own.into_iter().chain(others), &Author::Operation(operation), None);
    }

    /// A container can be created as plugins want it.
    pub(crate) fn created(&self, request: &Request, merged: &MergedCreate) {
        let claims = merged.owners.clone();
        self.goes_on(request.decision(), request.event(), None, claims, &merged.updates);
    }

    /// An operation has ended. From now on a snapshot shows what came of it.
    pub(crate) fn end(self: &Arc<Self>, operation: &Arc<OperationState>, outcome: OperationOutcome) {
        self.end_and(operation, outcome, outcome == OperationOutcome::Failed);
    }

    /// The same, and what was begun in it is undone or not.
    pub(crate) fn end_and(self: &Arc<Self>, operation: &Arc<OperationState>, outcome: OperationOutcome, undoes: bool) {
        // What has begun nothing is never undone.
        let is_undoing = undoes && operation.has_begun();
        let is_waited_for = {
            let mut plugins = self.lock();
            plugins.open.remove(&operation.id().0);
            // Nobody may take a participant for one that has nothing left to hear.
            if is_undoing {
                plugins.undoing.push(Arc::clone(operation));
            }
            !plugins.leaving.is_empty()
        };
        if is_waited_for {
            self.ended.notify_waiters();
        }
        let undo = operation.end(outcome, undoes).filter(|_| !self.services.stopping.is_cancelled());
        let undo = undo.filter(|_| !self.services.makes(Mistake::UndoLost));
        match undo {
            Some(undo) => undo.start(self, Arc::clone(operation)),
            None if is_undoing => self.undone(operation),
            None => {}
        }
    }

    /// All who saw what was begun in an operation know that it came to nothing, or cannot be told.
    pub(crate) fn undone(&self, operation: &Arc<OperationState>) {
        let is_waited_for = {
            let mut plugins = self.lock();
            plugins.undoing.retain(|other| !Arc::ptr_eq(other, operation));
            !plugins.leaving.is_empty()
        };
        if is_waited_for {
            self.ended.notify_waiters();
        }
    }

    /// Reports operations that are open for too long.
    pub(crate) async fn watch_operations(self: Arc<Self>) {
        let limit = self.services.config.operation_timeout;
        let interval = (limit / LOOKS).max(Duration::from_millis(1));
        while self.services.stopping.run_until_cancelled(tokio::time::sleep(interval)).await.is_some() {
            let open: Vec<_> = self.lock().open.values().cloned().collect();
            // One look more than it takes: the first may come at once.
            for operation in open.iter().filter(|operation| operation.grow_older(LOOKS + 1)) {
                self.services.watchers.tell(Happening::Overdue { pod: operation.pod_id.to_string(), open: limit });
            }
        }
    }

    /// Whether such a plugin has registered, and is not let in yet.
    pub(crate) fn is_arriving(&self, is_meant: impl Fn(&PluginId) -> bool) -> bool {
        self.lock().arriving.iter().any(|arriving| is_meant(&arriving.id))
    }

    /// How long a request waits for such a plugin, if one is arriving.
    pub(crate) fn join_timeout(&self, key: &PluginKey) -> Option<Duration> {
        let plugins = self.lock();
        let arriving = plugins.arriving.iter().find(|arriving| key.matches(&arriving.id))?;
        Some(plugins.roster.config().policies.effective(&arriving.id, Declared::default()).policy.join_timeout)
    }

    /// A plugin joins: from now on all that happens is kept for it, and its snapshot is taken.
    /// False if the adaptation was stopped.
    pub(crate) fn begin_join(&self, entry: &Arc<PluginSession>) -> bool {
        let mut plugins = self.lock();
        if plugins.stopped {
            return false;
        }
        entry.adopt(&plugins.roster.config().policies);
        entry.listens();
        self.snapshots.fetch_add(1, Ordering::SeqCst);
        let mut open: Vec<_> = plugins.open.values().cloned().collect();
        open.sort_unstable_by_key(|operation| operation.id());
        let mut touched = TouchedObjects::default();
        for operation in &open {
            operation.wait_for(entry);
            operation.touched(&mut touched);
        }
        plugins.joining.push(Joiner { entry: Arc::clone(entry), touched: Some(touched) });
        true
    }

    /// Its snapshot is there. Returns what was touched meanwhile.
    pub(crate) fn end_snapshot(&self, entry: &Arc<PluginSession>) -> TouchedObjects {
        let mut plugins = self.lock();
        let joiner = plugins.joining.iter_mut().find(|joiner| Arc::ptr_eq(&joiner.entry, entry));
        let touched = joiner.and_then(|joiner| joiner.touched.take());
        if touched.is_some() {
            self.snapshots.fetch_sub(1, Ordering::SeqCst);
        }
        touched.unwrap_or_default()
    }

    /// It has joined, or does not.
    pub(crate) fn end_join(&self, entry: &Arc<PluginSession>) {
        self.end_snapshot(entry);
        let mut plugins = self.lock();
        let before = plugins.joining.len();
        plugins.joining.retain(|joiner| !Arc::ptr_eq(&joiner.entry, entry));
        let was_joining = plugins.joining.len() < before;
        drop(plugins);
        if was_joining {
            entry.stops_listening();
        }
    }

    /// Stops: no request is relayed and no plugin added any more. Returns those that there are.
    pub(crate) fn stop(&self) -> Arc<Roster> {
        self.services.stopping.cancel();
        let (roster, joining) = {
            let mut plugins = self.lock();
            plugins.stopped = true;
            let joining: Vec<_> = plugins.joining.iter().map(|joiner| Arc::clone(&joiner.entry)).collect();
            (Arc::clone(&plugins.roster), joining)
        };
        for entry in joining {
            entry.close(GOES_AWAY);
        }
        roster
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Plugins> {
        self.plugins.lock()
    }
}
