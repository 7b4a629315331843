//! Adds plugins to the roster, replaces them and removes them. Subscribers are notified in the same
//! order.

use std::collections::BTreeSet;
use std::sync::Arc;

use nri_proto::PluginId;

use crate::api::health::State;
use crate::api::wait::wait_until;
use crate::config::policy::{Declared, Identity, PluginOrigin, Policy};
use crate::events::Happening;
use crate::operation::shared::{Arriving, Plugins, Shared};
use crate::operation::validation;
use crate::registry::admission::AdmitError;
use crate::registry::drain::leave;
use crate::session::roster::Roster;
use crate::session::{PluginSession, REPLACED};

impl Shared {
    /// Reserves a place for a plugin that registers.
    ///
    /// # Errors
    ///
    /// Returns an error if the operator does not permit the plugin, if there are too many plugins,
    /// or if a plugin of the same id is present or arriving and does not give way. Places that are
    /// reserved for absent required plugins and validators count as taken.
    pub(crate) fn arrives(&self, id: &PluginId, identity: Identity) -> Result<(), AdmitError> {
        let mut plugins = self.lock();
        plugins.check_place(id, identity)?;
        let policy = plugins.roster.config().policies.effective(id, Declared::default()).policy;
        for other in plugins.arriving.iter().filter(|other| other.id == *id) {
            gives_way(id, other.identity, identity, &policy)?;
        }
        plugins.check_room(id, self.services.config.max_plugins)?;
        plugins.arriving.push(Arriving { id: id.clone(), identity });
        Ok(())
    }

    /// Releases the reserved place of a plugin that was admitted or refused.
    pub(crate) fn has_arrived(&self, id: &PluginId, identity: Identity) {
        let mut plugins = self.lock();
        if let Some(at) = plugins.arriving.iter().position(|other| other.id == *id && other.identity == identity) {
            plugins.arriving.swap_remove(at);
        }
        drop(plugins);
        self.arrived.notify_waiters();
    }

    /// Checks again that a joining plugin is permitted, and returns its policy.
    pub(crate) fn check_place(&self, id: &PluginId, identity: Identity) -> Result<Policy, AdmitError> {
        let plugins = self.lock();
        plugins.check_place(id, identity)?;
        Ok(plugins.roster.config().policies.effective(id, Declared::default()).policy)
    }

    /// Adds a plugin that is ready to be asked, and watches it until it is gone. A plugin of the
    /// same id is replaced.
    ///
    /// # Errors
    ///
    /// Returns an error if the adaptation was stopped, if the operator does not permit the plugin
    /// any more, or if a plugin of the same id does not give way. Also returns an error if more has
    /// happened than the plugin's journal holds.
    pub(crate) fn add(self: &Arc<Self>, entry: &Arc<PluginSession>) -> Result<(), AdmitError> {
        let replaced = {
            let mut plugins = self.lock();
            // There is room, because the place was reserved when the plugin registered.
            plugins.check_place(&entry.id, entry.identity)?;
            let (with, replaced) = plugins.roster.with(entry);
            if !entry.joins(replaced.as_deref()) {
                return Err(AdmitError::Overtaken { plugin: entry.id.clone() });
            }
            // Operations that begin after this ask the plugin. Operations that began before do not.
            plugins.joining.retain(|joiner| !Arc::ptr_eq(&joiner.entry, entry));
            self.set_roster(&mut plugins, with);
            replaced
        };
        self.services.watchers.flush();
        entry.goes_on();
        if let Some(replaced) = replaced {
            self.let_go(replaced, REPLACED);
        }
        self.services.spawn(Arc::clone(self).look_after(Arc::clone(entry)));
        Ok(())
    }

    /// Notifies subscribers that a plugin was refused.
    pub(crate) fn is_refused(&self, plugin: PluginId, reason: String) {
        {
            let plugins = self.lock();
            self.services.watchers.note(match plugins.roster.has(&plugin) {
                true => Happening::Refused { plugin, reason },
                false => Happening::Closed { plugin, reason },
            });
        }
        self.services.watchers.flush();
    }

    /// Lets a replaced plugin finish its open requests. If too many plugins do so already, closes
    /// the plugin at once.
    fn let_go(self: &Arc<Self>, entry: Arc<PluginSession>, reason: &'static str) {
        match Arc::clone(&self.leaving).try_acquire_owned() {
            Ok(place) => {
                let shared = Arc::clone(self);
                self.services.spawn(async move {
                    leave(&shared, entry, reason).await;
                    drop(place);
                });
            }
            Err(_) => entry.close(reason),
        }
    }

    /// Waits until a plugin disconnects or is closed, and removes it.
    async fn look_after(self: Arc<Self>, entry: Arc<PluginSession>) {
        let is_closed_by_us = tokio::select! {
            reason = entry.plugin.gone() => {
                entry.close(&reason.to_string());
                false
            }
            () = entry.closed.cancelled() => true,
        };
        if self.remove(&entry, entry.reason()) && is_closed_by_us {
            validation::lost(&entry);
        }
    }

    /// Removes a plugin from the roster, so that operations that begin later do not ask it. Returns
    /// false if the plugin was already removed.
    pub(crate) fn remove(&self, entry: &Arc<PluginSession>, reason: &str) -> bool {
        {
            let mut plugins = self.lock();
            let Some(without) = plugins.roster.without(entry) else { return false };
            entry.is_dismissed(reason);
            self.set_roster(&mut plugins, without);
        }
        self.services.watchers.flush();
        true
    }

    /// Waits until a [leaving](Leaver) plugin takes part in no open operation.
    pub(crate) async fn takes_no_part(&self, entry: &Arc<PluginSession>) {
        wait_until(&self.ended, || !self.lock().takes_part_in_any(entry)).await;
    }

    /// Waits until a [leaving](Leaver) plugin has been told of all rollbacks of operations that it
    /// has seen begin.
    pub(crate) async fn is_owed_no_undo(&self, entry: &Arc<PluginSession>) {
        wait_until(&self.ended, || !self.lock().undoes_for(entry)).await;
        // The plugin may still have to be told of rollbacks that are in its journal.
        entry.has_heard_all().await;
    }

    fn set_roster(&self, plugins: &mut Plugins, roster: Roster) {
        self.services.watchers.note_order(roster.entries().iter().map(|entry| entry.id.clone()).collect());
        plugins.roster = Arc::new(roster);
    }
}

impl Plugins {
    /// Checks that the adaptation is not stopped, that a plugin is permitted, and that a present
    /// plugin of the same id gives way.
    fn check_place(&self, id: &PluginId, identity: Identity) -> Result<(), AdmitError> {
        if self.stopped {
            return Err(AdmitError::Stopped);
        }
        let policies = &self.roster.config().policies;
        policies
            .check_identity(id, identity)
            .map_err(|source| AdmitError::NotPermitted { plugin: id.clone(), source })?;
        let Some(there) = self.roster.find(id) else { return Ok(()) };
        // A closed plugin gives way to any other.
        if there.state() == State::Closed {
            return Ok(());
        }
        gives_way(id, there.identity, identity, there.terms.policy())
    }

    /// Checks that there is room for a plugin, apart from the places that are reserved for absent
    /// required plugins and validators.
    fn check_room(&self, id: &PluginId, limit: usize) -> Result<(), AdmitError> {
        let entries = self.roster.entries().iter().map(|entry| &entry.id);
        let taken: BTreeSet<_> = entries.chain(self.arriving.iter().map(|other| &other.id)).collect();
        if taken.contains(id) {
            return Ok(());
        }
        if taken.len() >= limit {
            return Err(AdmitError::Full { plugin: id.clone(), limit });
        }
        let policies = &self.roster.config().policies;
        let demanded: BTreeSet<_> = policies.required().chain(policies.validators()).collect();
        let absent = demanded.into_iter().filter(|key| !taken.iter().any(|other| key.matches(other)));
        let (own, kept): (Vec<_>, Vec<_>) = absent.partition(|key| key.matches(id));
        if own.is_empty() && taken.len() + kept.len() >= limit {
            return Err(AdmitError::Kept { plugin: id.clone(), limit, kept: kept.len() });
        }
        Ok(())
    }
}

/// A plugin that is leaving. Until dropped, the plugin still follows reloads of the configuration.
pub(crate) struct Leaver<'a> {
    shared: &'a Shared,
    entry: &'a Arc<PluginSession>,
}

impl<'a> Leaver<'a> {
    /// Begins to track a plugin that was removed from the roster.
    pub(crate) fn begin(shared: &'a Shared, entry: &'a Arc<PluginSession>) -> Self {
        let mut plugins = shared.lock();
        // A reload may have happened since the plugin was removed.
        entry.adopt(&plugins.roster.config().policies);
        plugins.leaving.push(Arc::clone(entry));
        Self { shared, entry }
    }
}

impl Drop for Leaver<'_> {
    fn drop(&mut self) {
        self.shared.lock().leaving.retain(|other| !Arc::ptr_eq(other, self.entry));
    }
}

/// Checks that a plugin that is present or arriving gives way to another of the same id. The
/// newcomer must have reached the runtime in the same way. If the plugin is required or a
/// validator, the newcomer must also belong to the same user.
fn gives_way(id: &PluginId, there: Identity, newcomer: Identity, policy: &Policy) -> Result<(), AdmitError> {
    let plugin = id.clone();
    if there.origin != newcomer.origin {
        return Err(AdmitError::Taken { plugin, origin: there.origin });
    }
    let demand = match (policy.required, policy.validator) {
        (true, _) => "required",
        (false, true) => "a validator",
        (false, false) => return Ok(()),
    };
    // Nothing shows that two connected peers belong to one user if the user of a peer is unknown.
    let is_unknown = there.origin == PluginOrigin::Connected && there.uid.is_none();
    if is_unknown || there.uid != newcomer.uid {
        return Err(AdmitError::Guarded { plugin, there, newcomer, demand });
    }
    Ok(())
}
