//! The plugins that there are, in the order in which they are asked.

use std::ops::Deref;
use std::sync::Arc;

use nri_proto::{Event, PluginId};

use crate::api::error::Cause;
use crate::api::health::State;
use crate::api::plugin::Reply;
use crate::api::request::Request;
use crate::config::policy::{Identity, Policy};
use crate::config::snapshot::Regime;
use crate::registry::admission::AdmitError;
use crate::session::patience::Allowance;
use crate::session::policy::Terms;
use crate::session::{Entry, Part};

/// The plugins at one moment, and what the operator says about them. It is never changed, only replaced.
pub(crate) struct Roster {
    regime: Arc<Regime>,
    entries: Vec<Participant>,
}

/// A plugin, and the terms on which it takes part. The [entry](Entry::terms) may be on others by now.
#[derive(Clone)]
pub(crate) struct Participant {
    pub(crate) entry: Arc<Entry>,
    pub(crate) terms: Arc<Terms>,
}

impl Deref for Participant {
    type Target = Arc<Entry>;

    fn deref(&self) -> &Arc<Entry> {
        &self.entry
    }
}

impl Participant {
    /// On the terms that hold now.
    fn new(entry: &Arc<Entry>) -> Self {
        Self { entry: Arc::clone(entry), terms: entry.terms() }
    }

    /// Whether it sees all pods, on these terms and on those that hold now.
    pub(crate) fn sees_all(&self) -> bool {
        self.terms.policy().sees_all() && self.entry.terms().policy().sees_all()
    }

    /// Asks it on the terms on which it takes part, and waits no longer than is allowed.
    pub(crate) async fn ask(
        &self,
        request: &Arc<Request>,
        part: Part<'_>,
        allowance: Allowance,
    ) -> Result<Reply, Cause> {
        self.entry.ask_on(&self.terms, request, part, allowance).await
    }
}

impl Roster {
    /// No plugins.
    pub(crate) fn new(regime: Arc<Regime>) -> Self {
        Self { regime, entries: Vec::new() }
    }

    /// What the operator says.
    pub(crate) fn regime(&self) -> &Arc<Regime> {
        &self.regime
    }

    /// The same plugins, on the terms that hold now. Some may have left: nobody else gives those the terms.
    pub(crate) fn under(&self, regime: &Arc<Regime>) -> Self {
        let under = |participant: &Participant| {
            participant.entry.adopt(&regime.policies);
            Participant::new(&participant.entry)
        };
        Self { regime: Arc::clone(regime), entries: self.entries.iter().map(under).collect() }
    }

    /// All of them.
    pub(crate) fn entries(&self) -> &[Participant] {
        &self.entries
    }

    /// Those that subscribed to `event` and see pods of this namespace, with their places.
    pub(crate) fn subscribed<'r>(
        &'r self,
        event: Event,
        namespace: &'r str,
    ) -> impl Iterator<Item = (usize, &'r Participant)> {
        self.entries.iter().enumerate().filter(move |(_, participant)| participant.terms.is_asked(event, namespace))
    }

    /// Whether there are any of them.
    pub(crate) fn has_subscriber(&self, event: Event, namespace: &str) -> bool {
        self.subscribed(event, namespace).next().is_some()
    }

    /// Whether there is a plugin of this id.
    pub(crate) fn has(&self, id: &PluginId) -> bool {
        self.place(id).is_ok()
    }

    /// Whether this very plugin is there.
    pub(crate) fn contains(&self, entry: &Arc<Entry>) -> bool {
        self.entries.iter().any(|other| Arc::ptr_eq(other, entry))
    }

    /// Checks that there is no plugin of this id, or one that gives way to this peer. A plugin that is closed gives way to anyone.
    pub(crate) fn check_place(&self, id: &PluginId, identity: Identity) -> Result<(), AdmitError> {
        let Ok(at) = self.place(id) else { return Ok(()) };
        let there = &self.entries[at];
        if there.state() == State::Closed {
            return Ok(());
        }
        gives_way(id, there.identity, identity, there.terms.policy())
    }

    /// With one more. One that has the same id gives way, and is returned.
    pub(crate) fn with(&self, entry: &Arc<Entry>) -> (Self, Option<Arc<Entry>>) {
        let (mut entries, newcomer) = (self.entries.clone(), Participant::new(entry));
        let replaced = match self.place(&entry.id) {
            Ok(at) => Some(std::mem::replace(&mut entries[at], newcomer).entry),
            Err(at) => {
                entries.insert(at, newcomer);
                None
            }
        };
        (Self { regime: Arc::clone(&self.regime), entries }, replaced)
    }

    /// Without this one, if it is there.
    pub(crate) fn without(&self, entry: &Arc<Entry>) -> Option<Self> {
        let at = self.entries.iter().position(|other| Arc::ptr_eq(other, entry))?;
        let mut entries = self.entries.clone();
        entries.remove(at);
        Some(Self { regime: Arc::clone(&self.regime), entries })
    }

    fn place(&self, id: &PluginId) -> Result<usize, usize> {
        self.entries.binary_search_by(|participant| participant.id.cmp(id))
    }
}

/// Checks that a plugin that is there, or on its way in, gives way to another one of its id: to one that came in the same way, and
/// if it must be there, to one of the same user alone.
pub(crate) fn gives_way(id: &PluginId, there: Identity, newcomer: Identity, policy: &Policy) -> Result<(), AdmitError> {
    let plugin = id.clone();
    if there.origin != newcomer.origin {
        return Err(AdmitError::Taken { plugin, origin: there.origin });
    }
    let demand = match (policy.required, policy.validator) {
        (true, _) => "required",
        (false, true) => "a validator",
        (false, false) => return Ok(()),
    };
    if there.uid != newcomer.uid {
        return Err(AdmitError::Guarded { plugin, there, newcomer, demand });
    }
    Ok(())
}
