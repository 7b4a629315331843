//! Containers that plugins want stopped. Evictions run in tasks: no request waits for them.

use std::sync::Arc;

use futures_util::future::join_all;
use nri_adaptation::ledger::EntryKind;
use nri_adaptation::merge::AskedEviction;
use nri_proto::PluginId;
use nri_proto::quote::{error_chain, line, quoted};
use tokio::time::Instant;
use tracing::warn;

use super::Instance;
use super::log_limit::{LogLimit, excerpt};
use super::namespaces::routing::{ChangeError, Requester, RoutedChanges};
use super::plugin_requests::{RequestContext, occasion};
use crate::lifecycle::namespace::Namespace;

impl Instance {
    /// Stops containers that plugins want stopped, in a task that only
    /// [`Nri::stop`](crate::Nri::stop) waits for. All evictions have one deadline. Failures are
    /// recorded in the ledger.
    pub(crate) fn evict(
        self: &Arc<Self>,
        own: Option<Arc<Namespace>>,
        evictions: Vec<AskedEviction>,
        context: Option<RequestContext>,
    ) {
        if evictions.is_empty() {
            return;
        }
        let (instance, deadline) = (Arc::clone(self), self.namespaces.deadline());
        let evicting = async move {
            let may_evict = |wanted: &AskedEviction, namespace: &Namespace| {
                instance.may_see(Requester::Plugin(&wanted.plugin), namespace, &wanted.eviction.container_id)
            };
            let RoutedChanges { by_namespace, failed } =
                instance.namespaces.route(own.as_ref(), evictions, |it| &it.eviction.container_id, may_evict);
            let (log_limit, context) = (LogLimit::default(), context.as_ref());
            for (AskedEviction { plugin, eviction }, error) in failed {
                instance.eviction_failed(&plugin, context, &eviction.container_id, &error, &log_limit);
            }
            // Concurrently: a domain that hangs delays its own evictions alone.
            let evict_in =
                |(namespace, evictions)| instance.evict_in(namespace, evictions, context, deadline, &log_limit);
            join_all(by_namespace.into_iter().map(evict_in)).await;
        };
        self.tasks.spawn_on(evicting, &self.runtime);
    }

    async fn evict_in(
        &self,
        namespace: Arc<Namespace>,
        evictions: Vec<AskedEviction>,
        context: Option<&RequestContext>,
        deadline: Instant,
        log_limit: &LogLimit,
    ) {
        for AskedEviction { plugin, eviction } in evictions {
            let id = eviction.container_id.clone();
            let evicted = match self.is_over.run_until_cancelled(namespace.evict(eviction, deadline)).await {
                Some(evicted) => evicted.map_err(|source| ChangeError::domain(&namespace, source)),
                None => Err(ChangeError::Stopped),
            };
            if let Err(error) = evicted {
                self.eviction_failed(&plugin, context, &id, &error, log_limit);
            }
        }
    }

    fn eviction_failed(
        &self,
        plugin: &PluginId,
        context: Option<&RequestContext>,
        container: &str,
        error: &ChangeError,
        log_limit: &LogLimit,
    ) {
        let reason = error_chain(error).to_string();
        // A plugin may call again and again by itself, but in a reply it is asked by the runtime.
        let throttle = &self.namespaces.throttle;
        let is_logged = context.is_some() || throttle.hear(plugin, "eviction").is_some();
        if is_logged && log_limit.has_room() {
            let (container, reason) = (quoted(excerpt(container)), line(&reason));
            warn!(%plugin, %container, %reason, "could not evict a container for a plugin");
        }
        self.adaptation.record(&occasion(plugin.as_ref(), context, container), EntryKind::EvictionFailed { reason });
    }
}
