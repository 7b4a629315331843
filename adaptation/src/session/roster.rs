//! The list of admitted plugins, in the order in which they are asked.

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

/// The plugins at one moment, and the configuration that is in effect for them. A roster is never
/// changed, only replaced.
pub(crate) struct Roster {
    config: Arc<ConfigSnapshot>,
    entries: Vec<Participant>,
}

/// A plugin and the policy under which it takes part in operations. The
/// [session](PluginSession::terms) of the plugin may have a newer policy.
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
    /// Returns the plugin with its current policy.
    fn new(entry: &Arc<PluginSession>) -> Self {
        Self { entry: Arc::clone(entry), terms: entry.terms() }
    }

    /// Returns whether the plugin may see all pods, under this policy and under its current one.
    pub(crate) fn sees_all(&self) -> bool {
        self.terms.policy().sees_all() && self.entry.terms().policy().sees_all()
    }

    /// Returns a request that the plugin was asked, for the records.
    pub(crate) fn exchange<'a>(&'a self, request: &'a Request, took: Duration) -> Exchange<'a> {
        Exchange { plugin: &self.id, mode: self.terms.policy().mode, request, took }
    }

    /// Asks the plugin under this policy, and waits no longer than `allowance`.
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
    /// Returns a roster without plugins.
    pub(crate) fn new(config: Arc<ConfigSnapshot>) -> Self {
        Self { config, entries: Vec::new() }
    }

    /// Returns the configuration of the roster.
    pub(crate) fn config(&self) -> &Arc<ConfigSnapshot> {
        &self.config
    }

    /// Returns the same plugins with their policies under another configuration. The sessions get
    /// these policies, too: sessions of plugins that have left get them nowhere else.
    pub(crate) fn under(&self, config: &Arc<ConfigSnapshot>) -> Self {
        let under = |participant: &Participant| {
            participant.entry.adopt(&config.policies);
            Participant::new(&participant.entry)
        };
        Self { config: Arc::clone(config), entries: self.entries.iter().map(under).collect() }
    }

    /// Returns all plugins in order.
    pub(crate) fn entries(&self) -> &[Participant] {
        &self.entries
    }

    /// Returns the plugins that are asked about `event` of pods in this Kubernetes namespace, each
    /// with its place.
    pub(crate) fn subscribed<'r>(
        &'r self,
        event: Event,
        namespace: &'r str,
    ) -> impl Iterator<Item = (usize, &'r Participant)> {
        self.entries.iter().enumerate().filter(move |(_, participant)| participant.terms.is_asked(event, namespace))
    }

    /// Returns whether any plugin is asked about `event` of pods in this Kubernetes namespace.
    pub(crate) fn has_subscriber(&self, event: Event, namespace: &str) -> bool {
        self.subscribed(event, namespace).next().is_some()
    }

    /// Returns whether the roster has a plugin with this id.
    pub(crate) fn has(&self, id: &PluginId) -> bool {
        self.place(id).is_ok()
    }

    /// Returns whether the roster has this session. Another session with the same id does not
    /// count.
    pub(crate) fn contains(&self, entry: &Arc<PluginSession>) -> bool {
        self.entries.iter().any(|other| Arc::ptr_eq(other, entry))
    }

    /// Returns the roster with one more plugin, and the plugin with the same id that it replaces,
    /// if any.
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

    /// Returns the roster without this plugin, or `None` if the roster does not have it.
    pub(crate) fn without(&self, entry: &Arc<PluginSession>) -> Option<Self> {
        let at = self.entries.iter().position(|other| Arc::ptr_eq(other, entry))?;
        let mut entries = self.entries.clone();
        entries.remove(at);
        Some(Self { config: Arc::clone(&self.config), entries })
    }

    /// Returns the plugin with this id.
    pub(crate) fn find(&self, id: &PluginId) -> Option<&Participant> {
        self.place(id).ok().map(|at| &self.entries[at])
    }

    fn place(&self, id: &PluginId) -> Result<usize, usize> {
        self.entries.binary_search_by(|participant| participant.id.cmp(id))
    }
}
