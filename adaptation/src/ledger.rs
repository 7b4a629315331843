//! Who changed what: a history of what plugins did and did not do, with a bound in bytes.
//!
//! Whoever asks plugins records here what came of it: an [`Occasion`], and [`What`] happened. What
//! is read is an [`Entry`]. The oldest go first. An entry that would take more than a share of the
//! history is kept without its values. What a reply changed is packed until someone reads it: it is
//! written with each request, and read seldom.
//!
//! An entry reads as one line, and serializes to one flat object, with values as people write them.
//!
//! - `entry.rs` is an entry, `value.rs` and `packed.rs` are the values in it, `failed.rs` the
//!   changes that could not be made.
//! - `cost.rs` counts bytes, `cut.rs` makes an entry smaller.
//! - `line.rs` and `object.rs` show an entry, `mask.rs` hides what may be secret.
//!
//! Nothing here does I/O or knows the time.

mod cost;
mod cut;
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

pub use self::entry::{Change, Entry, Occasion, What};
use self::packed::Packed;
use crate::merge::packing::{self, Cut};
use crate::merge::{Applied, Dropped};

/// The part of a history that one entry may take.
const SHARE: usize = 16;

/// A history of what plugins did.
///
/// ```
/// use std::sync::Arc;
/// use std::time::{Duration, SystemTime};
///
/// use nri_adaptation::ledger::{Ledger, Occasion, What};
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
/// ledger.record(&occasion, What::TimedOut);
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
    /// Oldest first, each with what it costs. Whoever reads shares them.
    kept: VecDeque<(Forgetting, usize)>,
    bytes: usize,
    limit: usize,
    recorded: u64,
    forgotten: u64,
}

/// The smallest piece of the history that is forgotten at a time.
#[derive(Clone, Debug)]
enum Forgetting {
    One(Arc<Entry>),
    Changes(Arc<Packed>),
}

impl Ledger {
    /// Begins a history that takes at most so many bytes, those of its entries included. What is
    /// read of it takes up to four times as much, as it was packed before.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { kept: VecDeque::new(), bytes: 0, limit, recorded: 0, forgotten: 0 }
    }

    /// Records what a plugin did or did not do.
    pub fn record(&mut self, occasion: &Occasion, what: What) {
        self.record_of(&Arc::new(occasion.clone()), what);
    }

    fn record_of(&mut self, occasion: &Arc<Occasion>, what: What) {
        let mut entry = Entry { sequence: self.recorded, occasion: Arc::clone(occasion), what, is_cut: false };
        self.recorded += 1;
        entry.strip();
        let mut cost = entry.cost();
        if cost > self.share() {
            entry.cut();
            cost = entry.cost();
        }
        self.keep(Forgetting::One(Arc::new(entry)), cost);
    }

    /// Records what came of a reply: each change, and each thing that was not used.
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
            self.record_of(&of_dropped, What::Dropped(dropped));
        }
    }

    /// Records packed changes of one container, as many together as fit into a share.
    fn record_changes(&mut self, occasion: &Arc<Occasion>, changes: &[u8]) {
        let room = self.share().saturating_sub(Packed::cost_of_nothing(occasion));
        for Cut { n_changes, bytes, weight } in packing::cut(changes, room, Packed::weigh) {
            if weight > room {
                packing::unpack(bytes).for_each(|change| self.record_of(occasion, What::Changed(change.into())));
                continue;
            }
            let (first, occasion) = (self.recorded, Arc::clone(occasion));
            self.recorded += n_changes as u64;
            let packed = Packed { first, n_changes, occasion, bytes: bytes.into(), weight };
            let cost = packed.cost();
            self.keep(Forgetting::Changes(Arc::new(packed)), cost);
        }
    }

    /// The part of the history that may be forgotten at a time.
    fn share(&self) -> usize {
        self.limit / SHARE
    }

    /// Records what is to be stopped, each with its own container.
    pub fn record_evictions<'e>(&mut self, occasion: &Occasion, evictions: impl IntoIterator<Item = &'e Eviction>) {
        for Eviction { container_id, reason, unknown: _ } in evictions {
            self.record(&occasion.of_container(container_id), What::EvictionAsked { reason: reason.clone() });
        }
    }

    /// Returns how a field of a container came to be what it is: all changes of it that were
    /// applied, in order; of one of its entries, or of all. Those that are known to have
    /// [failed](What::UpdateFailed) are not among them; of several updates of one container that a
    /// plugin asked for at once, none is.
    #[must_use]
    pub fn why(&self, container: &str, field: Field, key: Option<&str>) -> Vec<Arc<Entry>> {
        let mut entries = failed::without(self.of(container));
        entries.retain(|entry| entry.is_change_of(field, key));
        entries
    }

    /// Returns all that is known about a container, in order.
    #[must_use]
    pub fn of(&self, container: &str) -> Vec<Arc<Entry>> {
        self.select(|occasion| occasion.is_about(container))
    }

    /// Returns everything, in order.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Entry>> {
        self.select(|_| true)
    }

    /// How many entries were recorded, and are forgotten.
    #[must_use]
    pub fn n_forgotten(&self) -> u64 {
        self.forgotten
    }

    /// How many bytes it takes. What the entries of different replies share is counted for each of
    /// them, so it may take less.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        self.bytes
    }

    fn select(&self, is_meant: impl Fn(&Occasion) -> bool) -> Vec<Arc<Entry>> {
        let mut entries = Vec::new();
        for (kept, _) in self.kept.iter().filter(|(kept, _)| is_meant(kept.occasion())) {
            match kept {
                Forgetting::One(entry) => entries.push(Arc::clone(entry)),
                Forgetting::Changes(packed) => entries.extend(packed.entries().map(Arc::new)),
            }
        }
        entries
    }

    /// Keeps something, and lets the oldest go until the rest fits.
    fn keep(&mut self, kept: Forgetting, cost: usize) {
        self.bytes += cost;
        self.kept.push_back((kept, cost));
        while self.bytes > self.limit {
            let Some((kept, cost)) = self.kept.pop_front() else { break };
            self.bytes -= cost;
            self.forgotten += kept.n_entries();
        }
        // A queue does not shrink by itself, and each entry pays for two places only.
        if self.kept.capacity() > 64 && self.kept.capacity() > 4 * self.kept.len() {
            self.kept.shrink_to(2 * self.kept.len());
        }
    }
}

impl Forgetting {
    fn occasion(&self) -> &Occasion {
        match self {
            Self::One(entry) => &entry.occasion,
            Self::Changes(packed) => &packed.occasion,
        }
    }

    fn n_entries(&self) -> u64 {
        match self {
            Self::One(_) => 1,
            Self::Changes(packed) => packed.n_changes as u64,
        }
    }
}
