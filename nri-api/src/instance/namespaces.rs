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
use crate::domain::timeout::{DomainCallError, bounded, chain, done};
use crate::instance::Instance;
use crate::instance::log_limit::{LogLimit, excerpt};
use crate::lifecycle::namespace::{Namespace, Presence};

/// The namespaces of a runtime.
pub(crate) struct Namespaces {
    namespaces: RwLock<Vec<Arc<Namespace>>>,
    /// How long a domain may take.
    limit: Duration,
    /// Whoever has this.
    instance: Weak<Instance>,
}

/// Why an update or eviction was not made.
#[derive(Debug, Error)]
pub(crate) enum ChangeError {
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
    Domain { namespace: String, source: DomainCallError },
}

/// What plugins want of containers, by the namespaces that have them.
pub(crate) struct RoutedChanges<W> {
    pub(crate) of_namespaces: Vec<(Arc<Namespace>, Vec<W>)>,
    /// What no namespace can do, and why.
    pub(crate) nowhere: Vec<(W, ChangeError)>,
}

/// Who wants something of containers.
#[derive(Clone, Copy)]
pub(crate) enum Requester<'a> {
    /// A plugin, by itself.
    Plugin(&'a PluginId),
    /// Those who own what is changed, in a request.
    Owners(&'a Owners),
}

/// An update that was not made, and why.
pub(crate) struct FailedUpdate {
    pub(crate) update: Update,
    pub(crate) reason: String,
}

impl FailedUpdate {
    fn new(update: Update, unmade: &ChangeError) -> Self {
        Self { update, reason: chain(unmade) }
    }

    /// Logs the first of them, and how many more there are.
    fn warn_of(failed: &[Self]) {
        let warnings = LogLimit::default();
        for Self { update, reason } in failed {
            if warnings.has_room() {
                let (container, reason) = (quoted(excerpt(&update.container_id)), line(reason));
                warn!(%container, %reason, "an update that plugins want was not made");
            }
        }
    }
}

impl Namespaces {
    pub(crate) fn new(limit: Duration, instance: Weak<Instance>) -> Self {
        Self { namespaces: RwLock::default(), limit, instance }
    }

    /// Adds a namespace. False if there is one of this name.
    pub(crate) fn add(&self, namespace: &Arc<Namespace>) -> bool {
        let mut namespaces = self.namespaces.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = namespaces.iter().all(|other| other.name != namespace.name);
        if is_new {
            namespaces.push(Arc::clone(namespace));
        }
        is_new
    }

    fn namespaces(&self) -> Vec<Arc<Namespace>> {
        self.namespaces.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many containers were found alive in pods that are not there, or have stopped.
    pub(crate) fn n_stray(&self) -> u64 {
        self.namespaces().iter().map(|namespace| namespace.n_stray.load(Ordering::Relaxed)).sum()
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
        for (namespace, inventory) in self.inventories(self.deadline()).await {
            namespace.fill(inventory.ok_or_else(|| namespace.name.clone())?);
        }
        Ok(())
    }

    /// What each namespace has. One that does not say is reported.
    async fn inventories(&self, until: Instant) -> Vec<(Arc<Namespace>, Option<Inventory>)> {
        let namespaces = self.namespaces();
        let asking = namespaces.into_iter().map(|namespace| async move {
            let inventory = namespace.inventory(until).await;
            (namespace, inventory)
        });
        join_all(asking).await
    }

    /// Which namespace an update or eviction is for; `None` if the container has just gone. What is asked for in a request about one namespace is looked for
    /// there first.
    fn place(&self, own: Option<&Arc<Namespace>>, id: &str) -> Result<Option<Arc<Namespace>>, ChangeError> {
        match own.map(|own| (own, own.presence(id))) {
            Some((own, Presence::Here)) => return Ok(Some(Arc::clone(own))),
            Some((_, Presence::Coming)) => return Err(ChangeError::BeingCreated),
            // Plugins were told that it is over: another one is meant if there is one.
            Some((_, Presence::Over | Presence::Unknown)) | None => {}
        }
        let places: Vec<_> =
            self.namespaces().into_iter().map(|namespace| (namespace.presence(id), namespace)).collect();
        let mut here = places.iter().filter(|(presence, _)| *presence == Presence::Here);
        match (here.next(), here.next()) {
            (Some((_, namespace)), None) => return Ok(Some(Arc::clone(namespace))),
            (Some(_), Some(_)) => return Err(ChangeError::Ambiguous),
            (None, _) => {}
        }
        let is_any = |wanted: Presence| places.iter().any(|(presence, _)| *presence == wanted);
        match (is_any(Presence::Coming), is_any(Presence::Over)) {
            (true, _) => Err(ChangeError::BeingCreated),
            (false, true) => Ok(None),
            (false, false) => Err(ChangeError::Unknown),
        }
    }

    /// Which namespaces are to do what plugins want. What has just gone is left out.
    ///
    /// Where a container is was looked up before, for plugins that do not see all pods. Another one may have its id by now, so `may`
    /// says for the one that is meant now whether those who want it may.
    pub(crate) fn sort<W>(
        &self,
        own: Option<&Arc<Namespace>>,
        wanted: Vec<W>,
        id: impl Fn(&W) -> &str,
        may: impl Fn(&W, &Namespace) -> bool,
    ) -> RoutedChanges<W> {
        let mut sorted = RoutedChanges { of_namespaces: Vec::<(Arc<Namespace>, Vec<W>)>::new(), nowhere: Vec::new() };
        for wanted in wanted {
            match self.place(own, id(&wanted)) {
                Ok(Some(namespace)) if !may(&wanted, &namespace) => sorted.nowhere.push((wanted, ChangeError::Hidden)),
                Ok(Some(namespace)) => {
                    match sorted.of_namespaces.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &namespace)) {
                        Some((_, of_namespace)) => of_namespace.push(wanted),
                        None => sorted.of_namespaces.push((namespace, vec![wanted])),
                    }
                }
                Ok(None) => {}
                Err(unmade) => sorted.nowhere.push((wanted, unmade)),
            }
        }
        sorted
    }

    /// Makes updates, those of one namespace in order. Returns those that failed, also where that may be ignored.
    pub(crate) async fn update(
        &self,
        own: Option<&Arc<Namespace>>,
        updates: Vec<Update>,
        by: Requester<'_>,
        until: Instant,
    ) -> Vec<FailedUpdate> {
        let instance = self.instance.upgrade();
        let may = |update: &Update, namespace: &Namespace| {
            instance.as_ref().is_none_or(|instance| instance.lets(by, namespace, &update.container_id))
        };
        let RoutedChanges { of_namespaces, nowhere } = self.sort(own, updates, |update| &update.container_id, may);
        let mut failed: Vec<_> =
            nowhere.into_iter().map(|(update, unmade)| FailedUpdate::new(update, &unmade)).collect();
        // One that hangs takes the time of its own updates alone.
        let making = of_namespaces
            .into_iter()
            .map(|(namespace, updates)| async move { namespace.update_all(updates, until).await });
        failed.extend(join_all(making).await.into_iter().flatten());
        FailedUpdate::warn_of(&failed);
        failed
    }
}

impl Namespace {
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
                let namespace = &self.name;
                error!(namespace, error = &trouble as &dyn std::error::Error, "a domain does not say what there is");
                None
            }
        }
    }

    /// Makes updates in order. Returns those that failed.
    async fn update_all(&self, updates: Vec<Update>, until: Instant) -> Vec<FailedUpdate> {
        let mut failed = Vec::new();
        for update in updates {
            if let Err(unmade) = self.update(update.clone(), until).await {
                failed.push(FailedUpdate::new(update, &unmade));
            }
        }
        failed
    }

    async fn update(&self, update: Update, until: Instant) -> Result<(), ChangeError> {
        done(until, async { self.domain.update(update).await }).await.map_err(|source| self.unmade(source))
    }

    /// Stops a container for a plugin.
    pub(crate) async fn evict(&self, eviction: Eviction, until: Instant) -> Result<(), ChangeError> {
        done(until, async { self.domain.evict(eviction).await }).await.map_err(|source| self.unmade(source))
    }

    fn unmade(&self, source: DomainCallError) -> ChangeError {
        ChangeError::Domain { namespace: self.name.clone(), source }
    }
}

/// How many failed updates a plugin is told the reasons of.
const MAX_REASONS: usize = 10;
/// How many bytes of a reason a plugin is told.
const MAX_REASON: usize = 240;

/// Says which updates failed, and why. The text names at most [`MAX_REASONS`] of them and counts the rest.
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

#[async_trait]
impl Source for Namespaces {
    /// Whoever was shown a part of what there is would never hear of the rest: without all of it nobody is let in.
    async fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for (namespace, inventory) in self.inventories(self.deadline()).await {
            let Some(inventory) = inventory else { return std::future::pending().await };
            let (pods, containers) = namespace.show(inventory);
            snapshot.pods.extend(pods);
            snapshot.containers.extend(containers);
        }
        snapshot
    }

    /// A container that is being created counts, and one that was removed a short while ago: an update of that is no failure.
    async fn namespaces_of(&self, containers: &[String]) -> HashMap<String, Vec<String>> {
        let namespaces = self.namespaces();
        let namespaces_of = |id: &String| {
            let found: Option<Vec<_>> =
                namespaces.iter().filter_map(|namespace| namespace.pods_namespace(id)).collect();
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
        let instance = self.instance.upgrade();
        if let Some(instance) = &instance {
            let asked = |eviction| AskedEviction { plugin: plugin.clone(), eviction };
            instance.evict(None, evictions.into_iter().map(asked).collect(), None);
        }
        let failed = self.update(None, updates, Requester::Plugin(plugin), self.shared_deadline()).await;
        if let Some(instance) = &instance {
            for FailedUpdate { update, reason } in &failed {
                instance.update_failed(plugin.as_ref(), None, &update.container_id, reason.clone());
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
