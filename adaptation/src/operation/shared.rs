//! What everything in one adaptation shares.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nri_proto::{Container, Event, Owners, PluginId, Pod, Update};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::decision::Decision;
use crate::api::error::RelayError;
use crate::api::queue::Turns;
use crate::api::request::Request;
use crate::api::source::Source;
use crate::config::Config;
use crate::config::policy::{Declared, PluginKey};
use crate::config::snapshot::Regime;
use crate::events::{Happening, Watchers};
use crate::merge::MergedCreate;
use crate::operation::Nature;
use crate::operation::prior_state::{Before, Touched};
use crate::operation::relay::Asking;
use crate::operation::state::{Act, Kept};
use crate::registry::membership::Arriving;
use crate::reply::recorder::Records;
use crate::reply::update_log::{Author, UpdateLog};
use crate::session::Entry;
use crate::session::journal::{ActId, Outcome};
use crate::session::roster::Roster;

pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) watchers: Watchers,
    pub(crate) records: Records,
    pub(crate) update_log: UpdateLog,
    pub(crate) turns: Turns,
    /// Requests that wait for required plugins, by pod.
    pub(crate) waiting: Turns,
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
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
    regime: AtomicU64,
    /// How many snapshots are being taken.
    snapshots: AtomicUsize,
    handle: Handle,
    /// What a test has us do wrong, to see whether it would notice.
    #[cfg(test)]
    pub(crate) mistake: std::sync::OnceLock<Mistake>,
}

/// How many plugins may be on their way out at a time. A peer that comes again and again is not given time each time.
const MAX_LEAVING: usize = 8;

/// What could be done wrong.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    JournalNotKept,
    SnapshotAfterTheFact,
    UndoLost,
    StopDoubled,
    RemoveForgotten,
    /// A backlog is delivered in another order than that in which things happened.
    BacklogOutOfOrder,
    /// A plugin hears later of an operation that failed.
    FailureDelivered,
    /// What failed is undone for plugins that have not seen it, too.
    UndoneForAll,
    /// Requests wait for a plugin that is behind, although they do not need it.
    BacklogWaitedFor,
    /// A request that waits for the lane of a plugin goes to the end of the queue when anything changes.
    PlaceLost,
    /// The first answer of a suspended plugin makes it active, although it is behind.
    ProbeMakesActive,
    /// A suspended plugin is tried only when a request is made.
    OnlyRequestsProbe,
    /// What a plugin answers too late is only recorded, although what it was asked about has happened.
    LateAnswerLost,
}

/// The plugins, and whether there may be more. One lock: a plugin is in the roster that is closed at the end, or not at all; and an
/// operation has it among its participants, or among those who will hear of it.
pub(crate) struct Plugins {
    pub(crate) roster: Arc<Roster>,
    pub(crate) stopped: bool,
    /// Those who have registered and are not let in yet.
    pub(crate) arriving: Vec<Arriving>,
    /// Those for whom all that happens is kept.
    pub(crate) joining: Vec<Joiner>,
    /// The operations that something was asked in.
    pub(crate) open: HashMap<u64, Arc<Act>>,
    /// Those that have failed and are being undone.
    undoing: Vec<Arc<Act>>,
    n_acts: u64,
    /// Plugins that are asked no more but in operations that they take part in.
    pub(crate) leaving: Vec<Arc<Entry>>,
}

impl Plugins {
    /// None yet.
    fn under(regime: Regime) -> Self {
        let roster = Arc::new(Roster::new(Arc::new(regime)));
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
    pub(crate) fn asks_in_any(&self, entry: &Arc<Entry>) -> bool {
        self.open.values().any(|act| act.participants.contains(entry))
    }

    /// Whether a plugin may still be told that something came to nothing.
    pub(crate) fn undoes_for(&self, entry: &Arc<Entry>) -> bool {
        self.undoing.iter().any(|act| act.participants.contains(entry))
    }
}

/// A plugin that joins.
pub(crate) struct Joiner {
    pub(crate) entry: Arc<Entry>,
    /// What is touched while its snapshot is taken.
    touched: Option<Touched>,
}

/// Why plugins are closed at the end.
pub(crate) const GOES_AWAY: &str = "the runtime goes away";

/// How many times it is looked at an operation until it has been open for too long.
const LOOKS: u32 = 4;

impl Shared {
    pub(crate) fn new(config: Config, source: Arc<dyn Source>, watchers: Watchers) -> Arc<Self> {
        let regime = Regime::new(0, &config);
        Arc::new(Self {
            records: Records::new(config.history_bytes),
            config,
            source,
            stopping: watchers.stopping(),
            watchers,
            update_log: UpdateLog::default(),
            turns: Turns::default(),
            waiting: Turns::default(),
            tasks: TaskTracker::new(),
            leaving: Arc::new(Semaphore::new(MAX_LEAVING)),
            joining: watch::Sender::new(0),
            arrived: Notify::new(),
            ended: Notify::new(),
            regime: AtomicU64::new(regime.number),
            plugins: Mutex::new(Plugins::under(regime)),
            snapshots: AtomicUsize::new(0),
            #[cfg(test)]
            mistake: std::sync::OnceLock::new(),
            handle: Handle::current(),
        })
    }

    #[cfg(test)]
    pub(crate) fn makes(&self, mistake: Mistake) -> bool {
        self.mistake.get() == Some(&mistake)
    }

    pub(crate) fn check_running(&self) -> Result<(), RelayError> {
        if self.stopping.is_cancelled() { Err(RelayError::Stopped) } else { Ok(()) }
    }

    /// The plugins that there are now.
    pub(crate) fn roster(&self) -> Arc<Roster> {
        Arc::clone(&self.lock().roster)
    }

    /// Begins an operation: fixes who takes part. Those who join hear of it when it has ended.
    pub(crate) fn begin(&self, pod: &Arc<Pod>, nature: Nature) -> Arc<Act> {
        let mut plugins = self.lock();
        plugins.n_acts += 1;
        let id = plugins.n_acts;
        let act = Arc::new(Act::new(ActId(id), Arc::clone(pod), nature, Arc::clone(&plugins.roster)));
        for joiner in &plugins.joining {
            act.wait_for(&joiner.entry);
        }
        plugins.open.insert(id, Arc::clone(&act));
        act
    }

    /// Those who take part in an operation, on the terms that hold now.
    pub(crate) fn participants(&self, act: &Act) -> Arc<Roster> {
        if act.participants.regime().number == self.regime.load(Ordering::Acquire) {
            return Arc::clone(&act.participants);
        }
        let plugins = self.lock();
        Arc::new(act.participants.under(plugins.roster.regime()))
    }

    /// From now on this is what the operator says. Returns how many plugins are asked on other terms for it.
    pub(crate) fn reload(&self, config: &Config) -> usize {
        let (n_changed, not_permitted) = {
            let mut plugins = self.lock();
            let regime = Arc::new(Regime::new(plugins.roster.regime().number + 1, config));
            plugins.joining.iter().for_each(|joiner| _ = joiner.entry.adopt(&regime.policies));
            plugins.leaving.iter().for_each(|entry| _ = entry.adopt(&regime.policies));
            let changed = plugins.roster.entries().iter().filter(|entry| entry.adopt(&regime.policies));
            let n_changed = changed.inspect(|entry| self.watchers.note(entry.policy())).count();
            plugins.roster = Arc::new(plugins.roster.under(&regime));
            self.regime.store(regime.number, Ordering::Release);
            let joining = plugins.joining.iter().map(|joiner| &joiner.entry);
            let there =
                plugins.roster.entries().iter().map(|entry| &entry.entry).chain(&plugins.leaving).chain(joining);
            let refused = there.filter_map(|entry| {
                let refused = regime.policies.check_identity(&entry.id, entry.identity).err()?;
                Some((Arc::clone(entry), refused))
            });
            (n_changed, refused.collect::<Vec<_>>())
        };
        self.watchers.flush();
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
        act: &Act,
        event: Event,
        before: Option<Before>,
        kept: Kept,
        asking: Option<Asking>,
    ) -> usize {
        let place = act.ask(event, before, kept, asking);
        // Whoever takes a snapshot says so first and then looks at the operations, so one of us sees the other.
        if self.snapshots.load(Ordering::SeqCst) != 0 {
            let mut plugins = self.lock();
            plugins.joining.iter_mut().filter_map(|joiner| joiner.touched.as_mut()).for_each(|all| act.touched(all));
        }
        place
    }

    /// What a request will have come to that is made in an operation now.
    pub(crate) fn decision(&self, act: &Act) -> Decision {
        Decision::new(act.id(), act.fate(), self.update_log.now())
    }

    /// A request has gone on, with these claims and updates of plugins. Late answers to earlier requests
    /// leave alone the containers that it updates.
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
            self.update_log.remove(id);
        }
        let own = id.filter(|_| event == Event::UpdateContainer);
        let Some(act) = decision.act.filter(|_| own.is_some() || !updates.is_empty()) else { return };
        let others = updates.iter().map(|update| &*update.container_id);
        self.update_log.add(own.into_iter().chain(others), &Author::Operation(act), None);
    }

    /// A container can be created as plugins want it.
    pub(crate) fn created(&self, request: &Request, merged: &MergedCreate) {
        let claims = merged.owners.clone();
        self.goes_on(request.decision(), request.event(), None, claims, &merged.updates);
    }

    /// An operation has ended. From now on a snapshot shows what came of it.
    pub(crate) fn end(self: &Arc<Self>, act: &Arc<Act>, outcome: Outcome) {
        self.end_and(act, outcome, outcome == Outcome::Failed);
    }

    /// The same, and what was begun in it is undone or not.
    pub(crate) fn end_and(self: &Arc<Self>, act: &Arc<Act>, outcome: Outcome, undoes: bool) {
        // What has begun nothing is never undone.
        let is_undoing = undoes && act.has_begun();
        let is_waited_for = {
            let mut plugins = self.lock();
            plugins.open.remove(&act.id().0);
            // Nobody may take a participant for one that has nothing left to hear.
            if is_undoing {
                plugins.undoing.push(Arc::clone(act));
            }
            !plugins.leaving.is_empty()
        };
        if is_waited_for {
            self.ended.notify_waiters();
        }
        let undo = act.end(outcome, undoes).filter(|_| !self.stopping.is_cancelled());
        #[cfg(test)]
        let undo = undo.filter(|_| !self.makes(Mistake::UndoLost));
        match undo {
            Some(undo) => undo.start(self, Arc::clone(act)),
            None if is_undoing => self.undone(act),
            None => {}
        }
    }

    /// All who saw what was begun in an operation know that it came to nothing, or cannot be told.
    pub(crate) fn undone(&self, act: &Arc<Act>) {
        let is_waited_for = {
            let mut plugins = self.lock();
            plugins.undoing.retain(|other| !Arc::ptr_eq(other, act));
            !plugins.leaving.is_empty()
        };
        if is_waited_for {
            self.ended.notify_waiters();
        }
    }

    /// Reports operations that are open for too long.
    pub(crate) async fn watch_operations(self: Arc<Self>) {
        let limit = self.config.operation_timeout;
        let interval = (limit / LOOKS).max(Duration::from_millis(1));
        while self.stopping.run_until_cancelled(tokio::time::sleep(interval)).await.is_some() {
            let open: Vec<_> = self.lock().open.values().cloned().collect();
            // One look more than it takes: the first may come at once.
            for act in open.iter().filter(|act| act.grow_older(LOOKS + 1)) {
                self.watchers.tell(Happening::Overdue { pod: act.pod_id.to_string(), open: limit });
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
        Some(plugins.roster.regime().policies.effective(&arriving.id, Declared::default()).policy.join_timeout)
    }

    /// A plugin joins: from now on all that happens is kept for it, and its snapshot is taken. False if the adaptation was stopped.
    pub(crate) fn begin_join(&self, entry: &Arc<Entry>) -> bool {
        let mut plugins = self.lock();
        if plugins.stopped {
            return false;
        }
        entry.adopt(&plugins.roster.regime().policies);
        entry.listens();
        self.snapshots.fetch_add(1, Ordering::SeqCst);
        let mut open: Vec<_> = plugins.open.values().cloned().collect();
        open.sort_unstable_by_key(|act| act.id());
        let mut touched = Touched::default();
        for act in &open {
            act.wait_for(entry);
            act.touched(&mut touched);
        }
        plugins.joining.push(Joiner { entry: Arc::clone(entry), touched: Some(touched) });
        true
    }

    /// Its snapshot is there. Returns what was touched meanwhile.
    pub(crate) fn end_snapshot(&self, entry: &Arc<Entry>) -> Touched {
        let mut plugins = self.lock();
        let joiner = plugins.joining.iter_mut().find(|joiner| Arc::ptr_eq(&joiner.entry, entry));
        let touched = joiner.and_then(|joiner| joiner.touched.take());
        if touched.is_some() {
            self.snapshots.fetch_sub(1, Ordering::SeqCst);
        }
        touched.unwrap_or_default()
    }

    /// It has joined, or does not.
    pub(crate) fn end_join(&self, entry: &Arc<Entry>) {
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
        self.stopping.cancel();
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

    /// Runs a task that [`crate::Adaptation::stop`] waits for, from wherever it is called.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(task, &self.handle);
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Plugins> {
        self.plugins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
