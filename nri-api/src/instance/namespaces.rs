//! All namespaces of a runtime: where a joining plugin's snapshot comes from, and where what plugins want of containers goes to.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use nri_adaptation::merge::AskedEviction;
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::{Source, UpdatesFailed};
use nri_proto::quote::{line, quoted};
use nri_proto::{Container, Eviction, Owners, PluginId, Update};
use thiserror::Error;
use tokio::time::Instant;
use tracing::{error, warn};

use crate::domain::Inventory;
use crate::domain::timeout::{Trouble, bounded, chain, done};
use crate::instance::Node;
use crate::instance::log_limit::{Warnings, excerpt};
use crate::lifecycle::namespace::{Presence, Space};

/// The namespaces of a runtime.
pub(crate) struct Domains {
    spaces: RwLock<Vec<Arc<Space>>>,
    /// How long a domain may take.
    limit: Duration,
    /// Whoever has this.
    node: Weak<Node>,
}

/// Why an update or eviction was not made.
#[derive(Debug, Error)]
pub(crate) enum Unmade {
    #[error("there is no such container")]
    Unknown,
    #[error("the container is still being created")]
    BeingCreated,
    #[error("several namespaces have a container of this id")]
    Ambiguous,
    #[error("the container is in no pod that the plugin may see")]
    Hidden,
    #[error("NRI was stopped")]
    Stopped,
    #[error("namespace {namespace} has not done it")]
    Domain { namespace: String, source: Trouble },
}

/// What plugins want of containers, by the namespaces that have them.
pub(crate) struct Sorted<W> {
    pub(crate) of_spaces: Vec<(Arc<Space>, Vec<W>)>,
    /// What no namespace can do, and why.
    pub(crate) nowhere: Vec<(W, Unmade)>,
}

/// Who wants something of containers.
#[derive(Clone, Copy)]
pub(crate) enum By<'a> {
    /// A plugin, by itself.
    Plugin(&'a PluginId),
    /// Those who own what is changed, in a request.
    Owners(&'a Owners),
}

/// An update that was not made, and why.
pub(crate) struct Failed {
    pub(crate) update: Update,
    pub(crate) reason: String,
}

impl Failed {
    fn new(update: Update, unmade: &Unmade) -> Self {
        Self { update, reason: chain(unmade) }
    }

    /// Logs the first of them, and how many more there are.
    fn warn_of(failed: &[Self]) {
        let warnings = Warnings::default();
        for Self { update, reason } in failed {
            if warnings.has_room() {
                let (container, reason) = (quoted(excerpt(&update.container_id)), line(reason));
                warn!(%container, %reason, "an update that plugins want was not made");
            }
        }
    }
}

impl Domains {
    pub(crate) fn new(limit: Duration, node: Weak<Node>) -> Self {
        Self { spaces: RwLock::default(), limit, node }
    }

    /// Adds a namespace. False if there is one of this name.
    pub(crate) fn add(&self, space: &Arc<Space>) -> bool {
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = spaces.iter().all(|other| other.namespace != space.namespace);
        if is_new {
            spaces.push(Arc::clone(space));
        }
        is_new
    }

    fn spaces(&self) -> Vec<Arc<Space>> {
        self.spaces.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many containers were found alive in pods that are not there, or have stopped.
    pub(crate) fn n_stray(&self) -> u64 {
        self.spaces().iter().map(|space| space.n_stray.load(Ordering::Relaxed)).sum()
    }

    /// When a domain that is called now is to be done.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.limit
    }

    /// The same for what the adaptation waits for: before it gives up on all domains because of one.
    fn shared_deadline(&self) -> Instant {
        Instant::now() + self.limit / 4 * 3
    }

    /// Enters all that there is, before any plugin is told.
    /// The first namespace that does not say what it has is the error.
    pub(crate) async fn fill(&self) -> Result<(), String> {
        for (space, inventory) in self.inventories(self.deadline()).await {
            space.fill(inventory.ok_or_else(|| space.namespace.clone())?);
        }
        Ok(())
    }

    /// What each namespace has. One that does not say is reported.
    async fn inventories(&self, until: Instant) -> Vec<(Arc<Space>, Option<Inventory>)> {
        let spaces = self.spaces();
        let asking = spaces.into_iter().map(|space| async move {
            let inventory = space.inventory(until).await;
            (space, inventory)
        });
        join_all(asking).await
    }

    /// Which namespace an update or eviction is for; `None` if the container has just gone. What is asked for in a request about one namespace is looked for
    /// there first.
    fn place(&self, own: Option<&Arc<Space>>, id: &str) -> Result<Option<Arc<Space>>, Unmade> {
        match own.map(|own| (own, own.presence(id))) {
            Some((own, Presence::Here)) => return Ok(Some(Arc::clone(own))),
            Some((_, Presence::Coming)) => return Err(Unmade::BeingCreated),
            // Plugins were told that it is over: another one is meant if there is one.
            Some((_, Presence::Over | Presence::Unknown)) | None => {}
        }
        let places: Vec<_> = self.spaces().into_iter().map(|space| (space.presence(id), space)).collect();
        let mut here = places.iter().filter(|(presence, _)| *presence == Presence::Here);
        match (here.next(), here.next()) {
            (Some((_, space)), None) => return Ok(Some(Arc::clone(space))),
            (Some(_), Some(_)) => return Err(Unmade::Ambiguous),
            (None, _) => {}
        }
        let is_any = |wanted: Presence| places.iter().any(|(presence, _)| *presence == wanted);
        match (is_any(Presence::Coming), is_any(Presence::Over)) {
            (true, _) => Err(Unmade::BeingCreated),
            (false, true) => Ok(None),
            (false, false) => Err(Unmade::Unknown),
        }
    }

    /// Which namespaces are to do what plugins want. What has just gone is left out.
    ///
    /// Where a container is was looked up before, for plugins that do not see all pods. Another one may have its id by now, so `may`
    /// says for the one that is meant now whether those who want it may.
    pub(crate) fn sort<W>(
        &self,
        own: Option<&Arc<Space>>,
        wanted: Vec<W>,
        id: impl Fn(&W) -> &str,
        may: impl Fn(&W, &Space) -> bool,
    ) -> Sorted<W> {
        let mut sorted = Sorted { of_spaces: Vec::<(Arc<Space>, Vec<W>)>::new(), nowhere: Vec::new() };
        for wanted in wanted {
            match self.place(own, id(&wanted)) {
                Ok(Some(space)) if !may(&wanted, &space) => sorted.nowhere.push((wanted, Unmade::Hidden)),
                Ok(Some(space)) => match sorted.of_spaces.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &space)) {
                    Some((_, of_space)) => of_space.push(wanted),
                    None => sorted.of_spaces.push((space, vec![wanted])),
                },
                Ok(None) => {}
                Err(unmade) => sorted.nowhere.push((wanted, unmade)),
            }
        }
        sorted
    }

    /// Makes updates, those of one namespace in order. Returns those that failed, also where that may be ignored.
    pub(crate) async fn update(
        &self,
        own: Option<&Arc<Space>>,
        updates: Vec<Update>,
        by: By<'_>,
        until: Instant,
    ) -> Vec<Failed> {
        let node = self.node.upgrade();
        let may = |update: &Update, space: &Space| {
            node.as_ref().is_none_or(|node| node.lets(by, space, &update.container_id))
        };
        let Sorted { of_spaces, nowhere } = self.sort(own, updates, |update| &update.container_id, may);
        let mut failed: Vec<_> = nowhere.into_iter().map(|(update, unmade)| Failed::new(update, &unmade)).collect();
        // One that hangs takes the time of its own updates alone.
        let making =
            of_spaces.into_iter().map(|(space, updates)| async move { space.update_all(updates, until).await });
        failed.extend(join_all(making).await.into_iter().flatten());
        Failed::warn_of(&failed);
        failed
    }
}

impl Space {
    /// What there is. A domain that does not say is reported.
    pub(crate) async fn inventory(&self, until: Instant) -> Option<Inventory> {
        self.said(until, async { self.domain.inventory().await }).await
    }

    /// Those of these containers that there are.
    pub(crate) async fn known(&self, ids: &[String], until: Instant) -> Vec<Container> {
        self.said(until, async { self.domain.containers(ids).await }).await.unwrap_or_default()
    }

    async fn said<T>(&self, until: Instant, asking: impl Future<Output = T>) -> Option<T> {
        match bounded(until, asking).await {
            Ok(said) => Some(said),
            Err(trouble) => {
                let namespace = &self.namespace;
                error!(namespace, error = &trouble as &dyn std::error::Error, "a domain does not say what there is");
                None
            }
        }
    }

    /// Makes updates in order. Returns those that failed.
    async fn update_all(&self, updates: Vec<Update>, until: Instant) -> Vec<Failed> {
        let mut failed = Vec::new();
        for update in updates {
            if let Err(unmade) = self.update(update.clone(), until).await {
                failed.push(Failed::new(update, &unmade));
            }
        }
        failed
    }

    async fn update(&self, update: Update, until: Instant) -> Result<(), Unmade> {
        done(until, async { self.domain.update(update).await }).await.map_err(|source| self.unmade(source))
    }

    /// Stops a container for a plugin.
    pub(crate) async fn evict(&self, eviction: Eviction, until: Instant) -> Result<(), Unmade> {
        done(until, async { self.domain.evict(eviction).await }).await.map_err(|source| self.unmade(source))
    }

    fn unmade(&self, source: Trouble) -> Unmade {
        Unmade::Domain { namespace: self.namespace.clone(), source }
    }
}

/// How many failed updates a plugin is told the reasons of.
const MAX_REASONS: usize = 10;
/// How many bytes of a reason a plugin is told.
const MAX_REASON: usize = 240;

/// Says which updates failed, and why. The text names at most [`MAX_REASONS`] of them and counts the rest.
fn summary(failed: &[Failed]) -> String {
    let named = failed.iter().take(MAX_REASONS).map(|Failed { update, reason }| {
        let id = excerpt(&update.container_id);
        format!("{id}: {}", &reason[..reason.floor_char_boundary(MAX_REASON)])
    });
    let mut parts: Vec<_> = named.collect();
    if failed.len() > MAX_REASONS {
        parts.push(format!("and {} more", failed.len() - MAX_REASONS));
    }
    format!("{} failed: {}", if failed.len() == 1 { "an update" } else { "some updates" }, parts.join("; "))
}

#[async_trait]
impl Source for Domains {
    /// Whoever was shown a part of what there is would never hear of the rest: without all of it nobody is let in.
    async fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for (space, inventory) in self.inventories(self.deadline()).await {
            let Some(inventory) = inventory else { return std::future::pending().await };
            let (pods, containers) = space.show(inventory);
            snapshot.pods.extend(pods);
            snapshot.containers.extend(containers);
        }
        snapshot
    }

    /// A container that is being created counts, and one that was removed a short while ago: an update of that is no failure.
    async fn namespaces_of(&self, containers: &[String]) -> HashMap<String, Vec<String>> {
        let spaces = self.spaces();
        let namespaces_of = |id: &String| {
            let found: Option<Vec<_>> = spaces.iter().filter_map(|space| space.pods_namespace(id)).collect();
            let namespaces = found?.iter().map(ToString::to_string).collect();
            Some((id.clone(), namespaces))
        };
        containers.iter().filter_map(namespaces_of).collect()
    }

    /// An error if an update failed that was not `ignore_failure`: Go plugins look at the error alone.
    async fn apply(
        &self,
        plugin: &PluginId,
        updates: Vec<Update>,
        evictions: Vec<Eviction>,
    ) -> Result<Vec<Update>, UpdatesFailed> {
        let node = self.node.upgrade();
        if let Some(node) = &node {
            let asked = |eviction| AskedEviction { plugin: plugin.clone(), eviction };
            node.evict(None, evictions.into_iter().map(asked).collect(), None);
        }
        let failed = self.update(None, updates, By::Plugin(plugin), self.shared_deadline()).await;
        if let Some(node) = &node {
            for Failed { update, reason } in &failed {
                node.update_failed(plugin.as_ref(), None, &update.container_id, reason.clone());
            }
        }
        let told: Vec<_> = failed.into_iter().filter(|failed| !failed.update.ignore_failure).collect();
        if told.is_empty() {
            return Ok(Vec::new());
        }
        let reason = summary(&told);
        Err(UpdatesFailed { reason, failed: told.into_iter().map(|failed| failed.update).collect() })
    }

    fn records_failures(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(id: &str, reason: &str) -> Failed {
        Failed { update: Update::of(id), reason: reason.to_owned() }
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
