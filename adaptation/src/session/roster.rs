//! The plugins that there are, in the order in which they are asked.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use nri_proto::{Event, PluginId};

use crate::api::error::Cause;
use crate::api::plugin::Reply;
use crate::api::request::Request;
use crate::config::snapshot::ConfigSnapshot;
use crate::reply::recorder::Exchange;
use crate::session::patience::Allowance;
use crate::session::policy::PluginPolicy;
use crate::session::{PluginSession, RequestScope};

/// The plugins at one moment, and what the operator says about them. It is never changed, only
/// replaced.
pub(crate) struct Roster {
    config: Arc<ConfigSnapshot>,
    entries: Vec<Participant>,
}

/// A plugin, and the terms on which it takes part. The [entry](PluginSession::terms) may be on
/// others by now.
#[derive(Clone)]
pub(crate) struct Participant {
    pub(crate) entry: Arc<PluginSession>,
    pub(crate) terms: Arc<PluginPolicy>,
}

impl Deref for Participant {
    type Target = Arc<PluginSession>;

    fn deref(&self) -> &Arc<PluginSession> {
        &self.entry
    }
}

impl Participant {
    /// On the terms that hold now.
    fn new(entry: &Arc<PluginSession>) -> Self {
        Self { entry: Arc::clone(entry), terms: entry.terms() }
    }

    /// Whether it sees all pods, on these terms and on those that hold now.
    pub(crate) fn sees_all(&self) -> bool {
        self.terms.policy().sees_all() && self.entry.terms().policy().sees_all()
    }

    /// Returns a request that the plugin was asked, for the records.
    pub(crate) fn exchange<'a>(&'a self, request: &'a Request, took: Duration) -> Exchange<'a> {
        Exchange { plugin: &self.id, mode: self.terms.policy().mode, request, took }
    }

    /// Asks it on the terms on which it takes part, and waits no longer than is allowed.
    pub(crate) async fn ask(
        &self,
        request: &Arc<Request>,
        part: RequestScope<'_>,
        allowance: Allowance,
    ) -> Result<Reply, Cause> {
        self.entry.ask_on(&self.terms, request, part, allowance).await
    }
}

impl Roster {
    /// No plugins.
    pub(crate) fn new(config: Arc<ConfigSnapshot>) -> Self {
        Self { config, entries: Vec::new() }
    }

    /// What the operator says.
    pub(crate) fn config(&self) -> &Arc<ConfigSnapshot> {
        &self.config
    }

    /// The same plugins, on the terms that hold now. Some may have left: nobody else gives those
    /// the terms.
    pub(crate) fn under(&self, config: &Arc<ConfigSnapshot>) -> Self {
        let under = |participant: &Participant| {
            participant.entry.adopt(&config.policies);
            Participant::new(&participant.entry)
        };
        Self { config: Arc::clone(config), entries: self.entries.iter().map(under).collect() }
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
    pub(crate) fn contains(&self, entry: &Arc<PluginSession>) -> bool {
        self.entries.iter().any(|other| Arc::ptr_eq(other, entry))
    }

    /// With one more. One that has the same id gives way, and is returned.
    pub(crate) fn with(&self, entry: &Arc<PluginSession>) -> (Self, Option<Arc<PluginSession>>) {
        let (mut entries, newcomer) = (self.entries.clone(), Participant::new(entry));
        let replaced = match self.place(&entry.id) {
            Ok(at) => Some(std::mem::replace(&mut entries[at], newcomer).entry),
            Err(at) => {
                entries.insert(at, newcomer);
                None
            }
        };
        (Self { config: Arc::clone(&self.config), entries }, replaced)
    }

    /// Without this one, if it is there.
    pub(crate) fn without(&self, entry: &Arc<PluginSession>) -> Option<Self> {
        let at = self.entries.iter().position(|other| Arc::ptr_eq(other, entry))?;
        let mut entries = self.entries.clone();
        entries.remove(at);
        Some(Self { config: Arc::clone(&self.config), entries })
    }

    /// Returns the plugin of this id.
    pub(crate) fn find(&self, id: &PluginId) -> Option<&Participant> {
        self.place(id).ok().map(|at| &self.entries[at])
    }

    fn place(&self, id: &PluginId) -> Result<usize, usize> {
        self.entries.binary_search_by(|participant| participant.id.cmp(id))
    }
}
