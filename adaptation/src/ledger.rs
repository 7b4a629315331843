//! The history of what plugins changed, refused and missed, limited in bytes.
//!
//! Each record has an [`Occasion`] (when, which plugin, which request) and an [`EntryKind`].
//! Readers get an [`Entry`] for each record. If the history exceeds its limit, the oldest entries
//! are dropped. An entry larger than a fixed share of the limit is stored without its values. The
//! changes of a reply stay packed until someone reads them: they are written with each request, and
//! read seldom.
//!
//! An entry displays as one line, and serializes to one flat object with readable values.
//!
//! - `entry.rs`: an entry. `value.rs`, `packed.rs`: the values in it. `failed.rs`: updates that the
//!   runtime could not apply.
//! - `cost.rs` bounds the memory of entries, and shortens an entry that is too large.
//! - `line.rs`, `object.rs`: an entry as text and as an object. `mask.rs` hides secrets.
//!
//! The ledger does no I/O and reads no clock.

mod cost;
mod entry;
mod failed;
mod line;
mod mask;
mod object;
mod packed;
#[cfg(test)]
mod tests;
mod value;

use std::collections::VecDeque;
use std::sync::Arc;

use nri_proto::{Eviction, Field};

pub use self::entry::{Change, Entry, EntryKind, Occasion};
use self::packed::Packed;
use crate::merge::packing;
use crate::merge::{Applied, Dropped};

/// The fraction of a history that one item may take.
const SHARE: usize = 16;

/// The history of what plugins changed, refused and missed, limited in bytes.
///
/// ```
/// use std::sync::Arc;
/// use std::time::{Duration, SystemTime};
///
/// use nri_adaptation::ledger::{EntryKind, Ledger, Occasion};
/// use nri_adaptation::merge::CreateMerge;
/// use nri_proto::{Adjustment, Container, CreateReply, EnvVar, Event, Field, PluginId};
///
/// let container = Container { id: "9a27".to_owned(), env: vec!["LEVEL=info".to_owned()], ..Container::default() };
/// let plugin: PluginId = "10-a".parse()?;
/// let mut adjustment = Adjustment::default();
/// adjustment.env.replace(EnvVar::new("LEVEL", "debug"))?;
/// let reply = CreateReply { adjustment: Some(adjustment), ..CreateReply::default() };
/// let applied = CreateMerge::new(container).apply(&plugin, reply)?;
///
/// let mut ledger = Ledger::new(1 << 20);
/// let occasion = Occasion {
///     when: SystemTime::UNIX_EPOCH,
///     plugin: plugin.into(),
///     event: Some(Event::CreateContainer),
///     pod: Some("4f1c".into()),
///     container: Some("9a27".into()),
///     took: Some(Duration::from_micros(1200)),
///     shadow: false,
///     in_vain: false,
/// };
/// ledger.record_applied(&occasion, applied);
/// ledger.record(&occasion, EntryKind::TimedOut);
///
/// let why = ledger.why("9a27", Field::Env, Some("LEVEL"));
/// assert_eq!(why.len(), 1);
/// assert_eq!(why[0].to_string(), "10-a set Env LEVEL: info -> debug (1.2 ms)");
/// assert_eq!(
///     serde_json::to_string(&*why[0])?,
///     r#"{"sequence":0,"when":"1970-01-01T00:00:00Z","plugin":"10-a","event":"CreateContainer","pod":"4f1c","#.to_owned()
///         + r#""container":"9a27","took_ms":1.2,"what":"changed","field":"Env","key":"LEVEL","secret":true,"before":"info","after":"debug"}"#
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ledger {
    /// The history with the cost of each item in bytes, the oldest item first. Readers share the
    /// items.
    kept: VecDeque<(Item, usize)>,
    bytes: usize,
    limit: usize,
    recorded: u64,
    forgotten: u64,
}

/// An item of the history, which is dropped as a whole.
#[derive(Clone, Debug)]
enum Item {
    Fact(Arc<Entry>),
    Changes(Arc<Packed>),
}

impl Ledger {
    /// Creates a history that takes at most `limit` bytes. The entries that a reader gets may take
    /// up to four times as much, because they are unpacked.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { kept: VecDeque::new(), bytes: 0, limit, recorded: 0, forgotten: 0 }
    }

    /// Records what a plugin did or did not do.
    pub fn record(&mut self, occasion: &Occasion, what: EntryKind) {
        self.record_of(&Arc::new(occasion.clone()), what);
    }

    fn record_of(&mut self, occasion: &Arc<Occasion>, mut what: EntryKind) {
        if let EntryKind::Changed(change) = what {
            return self.record_changes(occasion, change.pack().written());
        }
        let mut occasion = Arc::clone(occasion);
        let mut cost = cost::of_fact(&occasion, &mut what);
        let is_cut = cost > self.share();
        if is_cut {
            occasion = occasion.shortened().into();
            what.shorten();
            cost = cost::of_fact(&occasion, &mut what);
        }
        let entry = Entry { sequence: self.recorded, occasion, what, is_cut };
        self.recorded += 1;
        self.keep(Item::Fact(entry.into()), cost);
    }

    /// Records the effect of a reply: each change, and each part that was ignored.
    pub fn record_applied(&mut self, occasion: &Occasion, applied: Applied) {
        let Applied { changes, dropped } = applied;
        let own = Arc::new(occasion.clone());
        for part in changes.parts() {
            match part.container() {
                None => self.record_changes(&own, part.bytes()),
                Some(other) => self.record_changes(&Arc::new(own.of_container(other)), part.bytes()),
            }
        }
        for dropped in dropped {
            let of_dropped = match &dropped {
                Dropped::Unread(_) => Arc::clone(&own),
                Dropped::Update(conflict) => Arc::new(own.of_container(&conflict.container)),
                Dropped::DeviceRules { container } => Arc::new(own.of_container(container)),
            };
            self.record_of(&of_dropped, EntryKind::Dropped(dropped));
        }
    }

    /// Records packed changes of one container, in items that are not larger than the share of an
    /// item. A change that is larger is recorded without its values.
    fn record_changes(&mut self, occasion: &Arc<Occasion>, changes: &[u8]) {
        if changes.len() <= self.share()
            && let cost = cost::of_changes(occasion, changes)
            && cost <= self.share()
        {
            self.keep_changes(Arc::clone(occasion), changes, cost, false);
        } else if packing::count(changes) > 1 {
            let (earlier, later) = packing::halves(changes);
            self.record_changes(occasion, earlier);
            self.record_changes(occasion, later);
        } else if let Some(changed) = packing::unpack(changes).next() {
            let (occasion, packed) = (occasion.shortened(), Change::from(changed).shortened().pack());
            let cost = cost::of_changes(&occasion, packed.written());
            self.keep_changes(occasion.into(), packed.written(), cost, true);
        }
    }

    fn keep_changes(&mut self, occasion: Arc<Occasion>, changes: &[u8], cost: usize, is_cut: bool) {
        let (first, n_changes) = (self.recorded, packing::count(changes) as u64);
        self.recorded += n_changes;
        let packed = Packed { first, n_changes, occasion, bytes: changes.into(), is_cut };
        self.keep(Item::Changes(packed.into()), cost);
    }

    /// Returns the largest size of an item of the history, in bytes.
    fn share(&self) -> usize {
        self.limit / SHARE
    }

    /// Records the evictions that a plugin asked for, each for its own container.
    pub fn record_evictions<'e>(&mut self, occasion: &Occasion, evictions: impl IntoIterator<Item = &'e Eviction>) {
        for Eviction { container_id, reason, unknown: _ } in evictions {
            self.record(&occasion.of_container(container_id), EntryKind::EvictionAsked { reason: reason.clone() });
        }
    }

    /// Returns the changes that were applied to a field of a container, in order. With `key`, only
    /// the changes to that entry of the field.
    ///
    /// Changes that the runtime [could not apply](EntryKind::UpdateFailed) are left out. If a
    /// asked for several updates of one container at once and one of them failed, all of them are
    /// left out.
    #[must_use]
    pub fn why(&self, container: &str, field: Field, key: Option<&str>) -> Vec<Arc<Entry>> {
        let mut entries = failed::without(self.of(container));
        entries.retain(|entry| entry.is_change_of(field, key));
        entries
    }

    /// Returns all entries about a container, in order.
    #[must_use]
    pub fn of(&self, container: &str) -> Vec<Arc<Entry>> {
        self.select(|occasion| occasion.is_about(container))
    }

    /// Returns all entries, in order.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Entry>> {
        self.select(|_| true)
    }

    /// Returns the number of entries that were recorded and have been dropped.
    #[must_use]
    pub fn n_forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Returns the size of the history in bytes. This is an upper bound: memory that several
    /// entries share is counted for each of them.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        self.bytes
    }

    fn select(&self, is_meant: impl Fn(&Occasion) -> bool) -> Vec<Arc<Entry>> {
        let mut entries = Vec::new();
        for (kept, _) in self.kept.iter().filter(|(kept, _)| is_meant(kept.occasion())) {
            match kept {
                Item::Fact(entry) => entries.push(Arc::clone(entry)),
                Item::Changes(packed) => entries.extend(packed.entries().map(Arc::new)),
            }
        }
        entries
    }

    /// Adds an item, and drops the oldest items until the limit holds.
    fn keep(&mut self, kept: Item, cost: usize) {
        self.bytes += cost;
        self.kept.push_back((kept, cost));
        while self.bytes > self.limit {
            let Some((kept, cost)) = self.kept.pop_front() else { break };
            self.bytes -= cost;
            self.forgotten += kept.n_entries();
        }
        // A queue does not shrink by itself, and the cost of an item covers two places only.
        if self.kept.capacity() > 64 && self.kept.capacity() > 4 * self.kept.len() {
            self.kept.shrink_to(2 * self.kept.len());
        }
    }
}

impl Item {
    fn occasion(&self) -> &Occasion {
        match self {
            Self::Fact(entry) => &entry.occasion,
            Self::Changes(packed) => &packed.occasion,
        }
    }

    fn n_entries(&self) -> u64 {
        match self {
            Self::Fact(_) => 1,
            Self::Changes(packed) => packed.n_changes,
        }
    }
}
