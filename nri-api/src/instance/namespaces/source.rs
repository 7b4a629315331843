//! The runtime as the adaptation's source: snapshots, and changes that plugins request on their own
//! initiative.

use std::collections::HashMap;

use async_trait::async_trait;
use nri_adaptation::merge::AskedEviction;
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::{Source, UpdatesFailed};
use nri_proto::{Eviction, PluginId, Update};
use tokio::time::Instant;

use super::Namespaces;
use super::routing::Requester;
use super::update::FailedUpdate;
use crate::instance::log_limit::excerpt;

/// How many failed updates the error of a plugin's call explains.
const MAX_REASONS: usize = 10;
/// The maximum length of one reason in the error of a plugin's call, in bytes.
const MAX_REASON: usize = 240;

#[async_trait]
impl Source for Namespaces {
    /// Never returns if an inventory cannot be read: a plugin that joined with an incomplete
    /// snapshot would never hear of the rest.
    async fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for (namespace, inventory) in self.inventories(self.deadline()).await {
            let Some(inventory) = inventory else { return std::future::pending().await };
            let (pods, containers) = namespace.snapshot(inventory);
            snapshot.pods.extend(pods);
            snapshot.containers.extend(containers);
        }
        snapshot
    }

    /// Includes containers that are being created and containers that were removed a short while
    /// ago: an update of the latter is no failure.
    async fn namespaces_of(&self, containers: &[String]) -> HashMap<String, Vec<String>> {
        let all = self.list();
        let namespaces_of = |id: &String| {
            let found: Option<Vec<_>> = all.iter().filter_map(|namespace| namespace.pods_namespace(id)).collect();
            let namespaces = found?.iter().map(ToString::to_string).collect();
            Some((id.clone(), namespaces))
        };
        containers.iter().filter_map(namespaces_of).collect()
    }

    /// Fails if an update failed that was not `ignore_failure`: Go plugins see the error alone.
    async fn apply(
        &self,
        plugin: &PluginId,
        updates: Vec<Update>,
        evictions: Vec<Eviction>,
    ) -> Result<Vec<Update>, UpdatesFailed> {
        let instance = self.instance.upgrade();
        if let Some(instance) = &instance {
            let wanted = |eviction| AskedEviction { plugin: plugin.clone(), eviction };
            instance.evict(None, evictions.into_iter().map(wanted).collect(), None);
        }
        let failed = self.update(None, updates, Requester::Plugin(plugin), self.source_deadline()).await;
        if let Some(instance) = &instance {
            for FailedUpdate { update, reason } in &failed {
                instance.record_update_failure(plugin.as_ref(), None, &update.container_id, reason.clone());
            }
        }
        let reported: Vec<_> = failed.into_iter().filter(|failed| !failed.update.ignore_failure).collect();
        if reported.is_empty() {
            return Ok(Vec::new());
        }
        let reason = summary(&reported);
        Err(UpdatesFailed { reason, failed: reported.into_iter().map(|failed| failed.update).collect() })
    }

    fn records_failures(&self) -> bool {
        true
    }
}

impl Namespaces {
    /// Returns the deadline of domain calls that the adaptation waits for. The deadline is earlier
    /// than the adaptation's own, so that one slow domain does not fail the updates of all.
    fn source_deadline(&self) -> Instant {
        Instant::now() + self.limit / 4 * 3
    }
}

/// Formats which updates failed and why. The text explains at most [`MAX_REASONS`] of them and
/// counts the rest.
fn summary(failed: &[FailedUpdate]) -> String {
    let named = failed.iter().take(MAX_REASONS).map(|FailedUpdate { update, reason }| {
        let id = excerpt(&update.container_id);
        format!("{id}: {}", &reason[..reason.floor_char_boundary(MAX_REASON)])
    });
    let mut parts: Vec<_> = named.collect();
    if failed.len() > MAX_REASONS {
        parts.push(format!("and {} more", failed.len() - MAX_REASONS));
    }
    format!("{} failed: {}", if failed.len() == 1 { "an update" } else { "some updates" }, parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(id: &str, reason: &str) -> FailedUpdate {
        FailedUpdate { update: Update::of(id), reason: reason.to_owned() }
    }

    #[test]
    fn a_plugin_is_told_ten_reasons_and_how_many_more_updates_failed() {
        assert_eq!(summary(&[failed("a", "gone")]), "an update failed: a: gone");
        let many: Vec<_> = (0..12).map(|n| failed(&format!("c{n}"), "gone")).collect();
        let text = summary(&many);
        assert!(text.starts_with("some updates failed: c0: gone; c1: gone; "), "{text}");
        assert!(text.ends_with("; c9: gone; and 2 more"), "{text}");
    }

    #[test]
    fn what_a_plugin_is_told_of_failed_updates_is_bounded() {
        let long = "\u{e9}".repeat(100_000);
        let many: Vec<_> = (0..1000).map(|_| failed(&long, &long)).collect();
        assert!(summary(&many).len() < 4096);
    }
}
