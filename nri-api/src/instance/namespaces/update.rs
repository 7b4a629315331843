//! Updates of containers that plugins want, applied by the domains that have the containers.

use std::sync::Arc;

use futures_util::future::join_all;
use nri_proto::Update;
use nri_proto::quote::{error_chain, line, quoted};
use tokio::time::Instant;
use tracing::warn;

use super::Namespaces;
use super::routing::{ChangeError, Requester, RoutedChanges};
use crate::instance::log_limit::{LogLimit, excerpt};
use crate::lifecycle::namespace::Namespace;

/// An update that was not applied, and why.
pub(crate) struct FailedUpdate {
    pub(crate) update: Update,
    pub(crate) reason: String,
}

impl FailedUpdate {
    fn new(update: Update, error: &ChangeError) -> Self {
        Self { update, reason: error_chain(error).to_string() }
    }

    /// Logs the first failed updates, and the number of the others.
    fn log(failed: &[Self]) {
        let log_limit = LogLimit::default();
        for Self { update, reason } in failed {
            if log_limit.has_room() {
                let (container, reason) = (quoted(excerpt(&update.container_id)), line(reason));
                warn!(%container, %reason, "could not update a container for a plugin");
            }
        }
    }
}

impl Namespaces {
    /// Applies updates, those of one namespace in order. Returns the failed updates, including
    /// those whose failure may be ignored.
    pub(crate) async fn update(
        &self,
        own: Option<&Arc<Namespace>>,
        updates: Vec<Update>,
        requester: Requester<'_>,
        deadline: Instant,
    ) -> Vec<FailedUpdate> {
        let instance = self.instance.upgrade();
        let may_update = |update: &Update, namespace: &Namespace| {
            instance.as_ref().is_none_or(|instance| instance.may_see(requester, namespace, &update.container_id))
        };
        let RoutedChanges { by_namespace, failed } =
            self.route(own, updates, |update| &update.container_id, may_update);
        let mut failed: Vec<_> = failed.into_iter().map(|(update, error)| FailedUpdate::new(update, &error)).collect();
        // Concurrently: a domain that hangs delays its own updates alone.
        let updating = by_namespace.into_iter().map(|(namespace, updates)| update_in(namespace, updates, deadline));
        failed.extend(join_all(updating).await.into_iter().flatten());
        // A plugin may call again and again by itself, but in a reply it is asked by the runtime.
        let is_logged = match requester {
            Requester::Plugin(plugin) => failed.is_empty() || self.throttle.hear(plugin, "update").is_some(),
            Requester::Owners(_) => true,
        };
        if is_logged {
            FailedUpdate::log(&failed);
        }
        failed
    }
}

/// Applies the updates of one namespace in order. Returns those that failed.
async fn update_in(namespace: Arc<Namespace>, updates: Vec<Update>, deadline: Instant) -> Vec<FailedUpdate> {
    let mut failed = Vec::new();
    for update in updates {
        if let Err(source) = namespace.update(update.clone(), deadline).await {
            failed.push(FailedUpdate::new(update, &ChangeError::domain(&namespace, source)));
        }
    }
    failed
}
