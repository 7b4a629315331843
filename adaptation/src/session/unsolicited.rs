//! Updates and evictions that a plugin asks for outside a request: by calling back, when it is
//! synchronized, or in a late answer.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use nri_proto::quote::error_line;
use nri_proto::{Eviction, PluginId, TakeUnknown, Update};
use thiserror::Error;
use tokio::time::timeout;
use tracing::{error, warn};

use crate::api::source::UpdatesFailed;
use crate::config::policy::{NotAllowed, Policy};
use crate::ledger::{EntryKind, Occasion};
use crate::merge::{Applied, Dropped};
use crate::reply::recorder;
use crate::reply::update_log::Author;
use crate::session::services::Services;
use crate::session::visibility::{HiddenChanges, RequestedChanges};

/// Updates and evictions that a plugin asks for outside a request.
pub(crate) struct UnsolicitedChanges {
    pub(crate) updates: Vec<Update>,
    pub(crate) evictions: Vec<Eviction>,
}

/// The reason why unsolicited updates and evictions were not applied, or not all of them.
#[derive(Debug, Error)]
pub(crate) enum UnsolicitedError {
    #[error(transparent)]
    Failed(#[from] UpdatesFailed),
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    #[error("the runtime panicked while it applied the changes")]
    Panicked,
    #[error("the runtime did not apply the changes in time")]
    TimedOut,
}

impl UnsolicitedChanges {
    pub(crate) fn updates(updates: Vec<Update>) -> Self {
        Self { updates, evictions: Vec::new() }
    }

    /// Has the runtime apply the changes, if the policy allows them and the plugin is not in shadow
    /// mode. Changes of containers that the plugin may not see are left out, and reported as
    /// failed. Returns the updates that failed.
    pub(crate) async fn apply(
        self,
        services: &Services,
        plugin: &PluginId,
        policy: &Policy,
    ) -> Result<Vec<Update>, UnsolicitedError> {
        self.apply_by(services, plugin, policy, |updates, evictions| services.source.apply(plugin, updates, evictions))
            .await
    }

    /// Like [`UnsolicitedChanges::apply`], with another function that applies the changes.
    pub(crate) async fn apply_by<F: Future<Output = Result<Vec<Update>, UpdatesFailed>>>(
        mut self,
        services: &Services,
        plugin: &PluginId,
        policy: &Policy,
        apply: impl FnOnce(Vec<Update>, Vec<Eviction>) -> F,
    ) -> Result<Vec<Update>, UnsolicitedError> {
        let occasion = recorder::unasked(plugin, policy.mode);
        self.drop_unusable(services, plugin, &occasion);
        if let Err(not_allowed) = policy.allow.check_unasked(&self.updates, &self.evictions) {
            if let Some(suppressed) = services.throttle.hear(plugin, "not allowed") {
                warn!(%plugin, suppressed, error = %error_line(&not_allowed), "plugin request denied by policy");
            }
            services.records.refused(&occasion, &not_allowed.clone().into());
            return Err(not_allowed.into());
        }
        let arrived = services.update_log.arrive();
        let hidden = self.take_hidden(services, plugin, [policy, policy], &occasion).await;
        if hidden.is_empty() {
            return self.make(services, plugin, &occasion, arrived, apply).await;
        }
        let made = if self.is_nothing() {
            Ok(Vec::new())
        } else {
            self.make(services, plugin, &occasion, arrived, apply).await
        };
        if occasion.shadow { made } else { hidden.and(made) }
    }

    /// Takes out and records the changes of containers in pods that the plugin may not see.
    pub(crate) async fn take_hidden(
        &mut self,
        services: &Services,
        plugin: &PluginId,
        policies: [&Policy; 2],
        occasion: &Occasion,
    ) -> HiddenChanges {
        let Self { updates, evictions } = self;
        let hidden =
            RequestedChanges { updates, evictions: Some(evictions) }.take_hidden(services, policies, None).await;
        if !hidden.is_empty() && services.throttle.hear(plugin, "hidden").is_some() {
            hidden.warn(plugin);
        }
        for (container, refusal) in hidden.refusals() {
            services.records.refused(&occasion.of_container(container), &refusal.into());
        }
        hidden
    }

    fn is_nothing(&self) -> bool {
        self.updates.is_empty() && self.evictions.is_empty()
    }

    /// Like [`UnsolicitedChanges::apply`], for changes that were checked already. `arrived` is the
    /// place of the changes among everything that plugins ask for.
    pub(crate) async fn apply_allowed(
        mut self,
        services: &Services,
        plugin: &PluginId,
        policy: &Policy,
        arrived: u64,
    ) -> Result<Vec<Update>, UnsolicitedError> {
        let occasion = recorder::unasked(plugin, policy.mode);
        self.drop_unusable(services, plugin, &occasion);
        let apply = |updates, evictions| services.source.apply(plugin, updates, evictions);
        self.make(services, plugin, &occasion, arrived, apply).await
    }

    fn drop_unusable(&mut self, services: &Services, plugin: &PluginId, occasion: &Occasion) {
        let mut dropped: Vec<_> = self.updates.iter_mut().flat_map(dropped_of).collect();
        let of_evictions = self.evictions.iter_mut().flat_map(TakeUnknown::take_unknown);
        dropped.extend(of_evictions.map(Dropped::Unread));
        if !dropped.is_empty() {
            if let Some(suppressed) = services.throttle.hear(plugin, "dropped") {
                warn!(%plugin, suppressed, count = dropped.len(), "unsupported fields in plugin request ignored");
            }
            services.records.ledger().record_applied(occasion, Applied { dropped, ..Applied::default() });
        }
    }

    /// Records the changes and has them applied within the source timeout, unless the plugin is in
    /// shadow mode.
    async fn make<F: Future<Output = Result<Vec<Update>, UpdatesFailed>>>(
        self,
        services: &Services,
        plugin: &PluginId,
        occasion: &Occasion,
        arrived: u64,
        apply: impl FnOnce(Vec<Update>, Vec<Eviction>) -> F,
    ) -> Result<Vec<Update>, UnsolicitedError> {
        let Self { updates, evictions } = self;
        // Recorded before the changes are applied: the runtime may take its time, and no second
        // copy is kept meanwhile.
        services.records.unasked(occasion, plugin, updates.clone(), &evictions);
        if occasion.shadow {
            return Ok(Vec::new());
        }
        let updated = updates.iter().map(|update| &*update.container_id);
        services.update_log.add(updated, &Author::Plugin(plugin.clone()), Some(arrived));
        let applying = AssertUnwindSafe(apply(updates, evictions)).catch_unwind();
        let undone = match timeout(services.config.source_timeout, applying).await {
            Ok(Ok(outcome)) => {
                let failed = match &outcome {
                    Ok(failed) | Err(UpdatesFailed { reason: _, failed }) => failed,
                };
                if !failed.is_empty()
                    && let Some(suppressed) = services.throttle.hear(plugin, "failed")
                {
                    warn!(%plugin, suppressed, count = failed.len(), "updates that the plugin requested have failed");
                }
                if !services.source.records_failures() {
                    services.records.undone(occasion, failed);
                }
                return Ok(outcome?);
            }
            Ok(Err(_panic)) => UnsolicitedError::Panicked,
            Err(_elapsed) => UnsolicitedError::TimedOut,
        };
        if let Some(suppressed) = services.throttle.hear(plugin, "not done") {
            error!(%plugin, suppressed, error = &undone as &dyn std::error::Error, "the runtime failed to apply the changes that the plugin requested");
        }
        services.records.ledger().record(occasion, EntryKind::Failed { reason: undone.to_string() });
        Err(undone)
    }
}

/// Takes unknown fields out of an update, and fields that only a new container can have.
fn dropped_of(update: &mut Update) -> Vec<Dropped> {
    let mut dropped: Vec<_> = update.take_unknown().into_iter().map(Dropped::Unread).collect();
    let resources = update.linux.as_mut().and_then(|linux| linux.resources.as_mut());
    if resources.is_some_and(|resources| !std::mem::take(&mut resources.devices).is_empty()) {
        dropped.push(Dropped::DeviceRules { container: update.container_id.clone() });
    }
    dropped
}
