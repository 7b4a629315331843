//! The state that all operations of one adaptation share.

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
use crate::mistake::Mistake;
use crate::operation::OperationOptions;
use crate::operation::prior_state::{PriorStates, TouchedObjects};
use crate::operation::state::{KeptRequest, OperationState};
use crate::reply::update_log::Author;
use crate::session::PluginSession;
use crate::session::progress::RelayProgress;
use crate::session::roster::Roster;
use crate::session::services::Services;

pub(crate) struct Shared {
    pub(crate) services: Arc<Services>,
    pub(crate) turns: KeyedQueue,
    /// The queues of requests that wait for required plugins, one for each pod.
    pub(crate) waiting: KeyedQueue,
    /// Permits for plugins that were replaced and may finish the operations in which they take
    /// part.
    pub(crate) leaving: Arc<Semaphore>,
    /// The number of plugins that are being synchronized.
    pub(crate) joining: watch::Sender<usize>,
    /// Notified when the registration of a plugin has ended, with or without its admission, and
    /// after a reload.
    pub(crate) arrived: Notify,
    /// Notified when an operation or a rollback has ended in which a leaving plugin may take part.
    pub(crate) ended: Notify,
    plugins: Mutex<Plugins>,
    /// The number of the configuration that the roster has.
    config: AtomicU64,
    /// The number of snapshots that are being taken.
    snapshots: AtomicUsize,
}

/// The number of replaced plugins that may finish their operations at a time. Further replaced
/// plugins are closed at once, so a peer that reconnects again and again cannot accumulate
/// sessions.
const MAX_LEAVING: usize = 8;

/// The plugins and the open operations. They are under one lock, so that a plugin is either in the
/// roster that is closed when the adaptation stops, or never added; and so that each operation has
/// a plugin either among its participants or among the plugins that receive its requests later.
pub(crate) struct Plugins {
    pub(crate) roster: Arc<Roster>,
    pub(crate) stopped: bool,
    /// The plugins that have registered and are not admitted yet.
    pub(crate) arriving: Vec<Arriving>,
    /// The plugins that are joining: every request is added to their journals.
    pub(crate) joining: Vec<Joiner>,
    /// The operations in which a request was made and that have not ended.
    pub(crate) open: HashMap<u64, Arc<OperationState>>,
    /// The failed operations whose rollback is in progress.
    undoing: Vec<Arc<OperationState>>,
    n_acts: u64,
    /// The plugins that are asked only in operations in which they already take part.
    pub(crate) leaving: Vec<Arc<PluginSession>>,
}

impl Plugins {
    /// Returns an empty set of plugins with this configuration.
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

    /// Returns whether a plugin takes part in an open operation.
    pub(crate) fn takes_part_in_any(&self, entry: &Arc<PluginSession>) -> bool {
        self.open.values().any(|operation| operation.participants.contains(entry))
    }

    /// Returns whether a rollback in progress may still notify a plugin.
    pub(crate) fn undoes_for(&self, entry: &Arc<PluginSession>) -> bool {
        self.undoing.iter().any(|operation| operation.participants.contains(entry))
    }
}

/// A plugin that has registered and is not admitted yet.
pub(crate) struct Arriving {
    pub(crate) id: PluginId,
    pub(crate) identity: Identity,
}

/// A plugin that is joining.
pub(crate) struct Joiner {
    pub(crate) entry: Arc<PluginSession>,
    /// The objects that were touched since the snapshot for the plugin was requested. `None` after
    /// the snapshot was taken.
    touched: Option<TouchedObjects>,
}

/// The reason for closing plugins when the adaptation stops.
pub(crate) const GOES_AWAY: &str = "the runtime is shutting down";

/// The number of checks of an open operation during one operation timeout.
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

    /// Returns the current plugins.
    pub(crate) fn roster(&self) -> Arc<Roster> {
        Arc::clone(&self.lock().roster)
    }

    /// Begins an operation with the current plugins as its participants. Plugins that are joining
    /// receive its requests after its end.
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

    /// Returns the participants of an operation, with their policies under the current
    /// configuration.
    pub(crate) fn participants(&self, operation: &OperationState) -> Arc<Roster> {
        if operation.participants.config().number == self.config.load(Ordering::Acquire) {
            return Arc::clone(&operation.participants);
        }
        let plugins = self.lock();
        Arc::new(operation.participants.under(plugins.roster.config()))
    }

    /// Puts another configuration into effect. Returns the number of plugins in the roster whose
    /// policy changed.
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
        // A request that waits for a required plugin may not need that plugin any more.
        self.arrived.notify_waiters();
        n_changed
    }

    /// Records a request in an operation. Returns its place there.
    pub(crate) fn asks(
        &self,
        operation: &OperationState,
        event: Event,
        before: Option<PriorStates>,
        kept: KeptRequest,
        progress: Option<RelayProgress>,
    ) -> usize {
        let place = operation.ask(event, before, kept, progress);
        // A join increments this counter before it looks at the open operations. So either the join
        // sees this request, or this function sees the join.
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

    /// Returns the decision, still open, of a request that is made in an operation now.
    pub(crate) fn decision(&self, operation: &OperationState) -> Decision {
        Decision::new(operation.id(), operation.fate(), self.services.update_log.now())
    }

    /// Records that a request succeeded, with these claims and updates of plugins. Late answers to
    /// earlier requests then do not change the containers that it updates.
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

    /// Records that a create request succeeded with this result.
    pub(crate) fn created(&self, request: &Request, merged: &MergedCreate) {
        let claims = merged.owners.clone();
        self.goes_on(request.decision(), request.event(), None, claims, &merged.updates);
    }

    /// Ends an operation, and rolls it back if it failed. From now on, snapshots show its outcome.
    pub(crate) fn end(self: &Arc<Self>, operation: &Arc<OperationState>, outcome: OperationOutcome) {
        self.end_and(operation, outcome, outcome == OperationOutcome::Failed);
    }

    /// Ends an operation, and rolls it back if `undoes` is set.
    pub(crate) fn end_and(self: &Arc<Self>, operation: &Arc<OperationState>, outcome: OperationOutcome, undoes: bool) {
        // An operation that has begun nothing has nothing to roll back.
        let is_undoing = undoes && operation.has_begun();
        let is_waited_for = {
            let mut plugins = self.lock();
            plugins.open.remove(&operation.id().0);
            // Under the same lock, so that a participant that leaves never seems to have nothing
            // left to receive.
            if is_undoing {
                plugins.undoing.push(Arc::clone(operation));
            }
            !plugins.leaving.is_empty()
        };
        if is_waited_for {
            self.ended.notify_waiters();
        }
        let undo = operation.end(outcome, undoes).filter(|_| !self.services.stopping.is_cancelled());
        let undo = undo.filter(|_| !Mistake::UndoLost.is_injected());
        match undo {
            Some(undo) => undo.start(self, Arc::clone(operation)),
            None if is_undoing => self.undone(operation),
            None => {}
        }
    }

    /// Records the end of a rollback: all plugins that saw the beginning were notified, or cannot
    /// be.
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

    /// Checks for operations that are open for too long and reports them, until the adaptation
    /// stops.
    pub(crate) async fn watch_operations(self: Arc<Self>) {
        let limit = self.services.config.operation_timeout;
        let interval = (limit / LOOKS).max(Duration::from_millis(1));
        while self.services.stopping.run_until_cancelled(tokio::time::sleep(interval)).await.is_some() {
            let open: Vec<_> = self.lock().open.values().cloned().collect();
            // One check more than in a timeout, because the first check may follow at once.
            for operation in open.iter().filter(|operation| operation.grow_older(LOOKS + 1)) {
                self.services.watchers.tell(Happening::Overdue { pod: operation.pod_id.to_string(), open: limit });
            }
        }
    }

    /// Returns whether a plugin that `is_meant` accepts has registered and is not admitted yet.
    pub(crate) fn is_arriving(&self, is_meant: impl Fn(&PluginId) -> bool) -> bool {
        self.lock().arriving.iter().any(|arriving| is_meant(&arriving.id))
    }

    /// Returns how long a request waits for a plugin with this key that has registered and is not
    /// admitted yet. Returns `None` if there is no such plugin.
    pub(crate) fn join_timeout(&self, key: &PluginKey) -> Option<Duration> {
        let plugins = self.lock();
        let arriving = plugins.arriving.iter().find(|arriving| key.matches(&arriving.id))?;
        Some(plugins.roster.config().policies.effective(&arriving.id, Declared::default()).policy.join_timeout)
    }

    /// Begins the join of a plugin: every request is added to its journal from now on, and its
    /// snapshot is about to be taken. Returns false if the adaptation was stopped.
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

    /// Ends the snapshot of a joining plugin. Returns the objects that were touched while the
    /// snapshot was taken.
    pub(crate) fn end_snapshot(&self, entry: &Arc<PluginSession>) -> TouchedObjects {
        let mut plugins = self.lock();
        let joiner = plugins.joining.iter_mut().find(|joiner| Arc::ptr_eq(&joiner.entry, entry));
        let touched = joiner.and_then(|joiner| joiner.touched.take());
        if touched.is_some() {
            self.snapshots.fetch_sub(1, Ordering::SeqCst);
        }
        touched.unwrap_or_default()
    }

    /// Ends the join of a plugin. If the plugin was not added, its journal is cleared.
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

    /// Stops the adaptation: no request is relayed and no plugin added any more. Closes the plugins
    /// that are joining, and returns the admitted ones.
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
