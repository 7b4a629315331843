//! Updates that plugins want in their replies, and which plugins may want them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use nri_adaptation::ledger::{EntryKind, Occasion};
use nri_proto::{Event, Owners, PluginId, Pod, Update};

use super::Instance;
use super::namespaces::routing::Requester;
use super::namespaces::update::FailedUpdate;
use crate::lifecycle::namespace::Namespace;

/// Named in the ledger for a failed update that sets nothing, and so has no owner.
const NOBODY: &str = "(nobody)";

/// The request in whose reply a plugin asked for a change.
#[derive(Clone)]
pub(crate) struct RequestContext {
    pub(crate) event: Event,
    pub(crate) pod: Arc<Pod>,
}

impl Instance {
    /// Applies updates that plugins asked for in their replies to a request in the namespace `own`.
    /// Failures are recorded in the ledger.
    ///
    /// A task calls the domain, so that no code of the runtime runs while the request is polled.
    /// The task begins at once, and the returned future waits for its end.
    pub(crate) fn apply_updates(
        self: &Arc<Self>,
        own: &Arc<Namespace>,
        context: RequestContext,
        updates: Vec<Update>,
        owners: &Owners,
    ) -> impl Future<Output = ()> + Send + use<> {
        let task = (!updates.is_empty()).then(|| {
            let (instance, own, owners) = (Arc::clone(self), Arc::clone(own), owners.clone());
            let applying = async move { instance.apply_updates_now(&own, &context, updates, &owners).await };
            self.tasks.spawn_on(applying, &self.runtime)
        });
        async move {
            if let Some(task) = task {
                // An error means that the Tokio runtime was shut down: a domain that panics fails
                // its call.
                let _ = task.await;
            }
        }
    }

    async fn apply_updates_now(
        &self,
        own: &Arc<Namespace>,
        context: &RequestContext,
        updates: Vec<Update>,
        owners: &Owners,
    ) {
        let (requester, deadline) = (Requester::Owners(owners), self.namespaces.deadline());
        for FailedUpdate { update, reason } in self.namespaces.update(Some(own), updates, requester, deadline).await {
            let id = &update.container_id;
            let mut plugins = plugins_of(owners, id);
            if plugins.is_empty() {
                plugins.insert(NOBODY);
            }
            for plugin in plugins {
                self.record_update_failure(plugin, Some(context), id, reason.clone());
            }
        }
    }

    /// Returns whether the plugins that want a change of a container in `namespace` may see the
    /// container's pod.
    pub(crate) fn may_see(&self, requester: Requester<'_>, namespace: &Namespace, container: &str) -> bool {
        if !self.adaptation.hides_pods() {
            return true;
        }
        let pods_namespace = namespace.pods_namespace(container).flatten();
        let sees = |plugin: &PluginId| self.adaptation.sees(plugin, pods_namespace.as_deref());
        match requester {
            Requester::Plugin(plugin) => sees(plugin),
            Requester::Owners(owners) => {
                plugins_of(owners, container).iter().all(|id| id.parse().is_ok_and(|id| sees(&id)))
            }
        }
    }

    /// Records in the ledger that an update failed.
    pub(crate) fn record_update_failure(
        &self,
        plugin: &str,
        context: Option<&RequestContext>,
        container: &str,
        reason: String,
    ) {
        self.adaptation.record(&occasion(plugin, context, container), EntryKind::UpdateFailed { reason });
    }
}

/// Returns the plugins that want a change of a container.
pub(crate) fn plugins_of<'o>(owners: &'o Owners, container: &str) -> BTreeSet<&'o str> {
    let Some(owners) = owners.containers.get(container) else { return BTreeSet::new() };
    let compound = owners.compound.values().flat_map(|owners| owners.entries.values());
    owners.simple.values().chain(compound).flat_map(|owner| owner.plugins()).collect()
}

/// Returns the context of a ledger entry about a change that has failed.
pub(super) fn occasion(plugin: &str, context: Option<&RequestContext>, container: &str) -> Occasion {
    Occasion {
        when: SystemTime::now(),
        plugin: plugin.into(),
        event: context.map(|context| context.event),
        pod: context.map(|context| context.pod.id.as_str().into()),
        container: Some(container.into()),
        took: None,
        shadow: false,
        in_vain: false,
    }
}
