//! The registered namespaces.
//!
//! - `routing`: which namespace has the container that a plugin wants changed.
//! - `update`: updates of containers, by the domains that have them.
//! - `source`: what the adaptation asks of the runtime: snapshots, and what plugins want by
//!   themselves.

pub(crate) mod routing;
mod source;
pub(crate) mod update;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use nri_adaptation::PluginLogThrottle;
use parking_lot::RwLock;
use tokio::time::Instant;

use super::Instance;
use crate::domain::Inventory;
use crate::lifecycle::namespace::Namespace;

/// All registered namespaces.
pub(crate) struct Namespaces {
    namespaces: RwLock<Vec<Arc<Namespace>>>,
    /// How long a call of a domain may take.
    limit: Duration,
    /// Limits the warnings about what plugins ask for outside a request.
    pub(crate) throttle: PluginLogThrottle,
    /// The owner of this value.
    instance: Weak<Instance>,
}

impl Namespaces {
    pub(crate) fn new(limit: Duration, instance: Weak<Instance>) -> Self {
        Self { namespaces: RwLock::default(), limit, throttle: PluginLogThrottle::default(), instance }
    }

    /// Adds a namespace. Returns false if there is one of this name.
    pub(crate) fn add(&self, namespace: &Arc<Namespace>) -> bool {
        let mut namespaces = self.namespaces.write();
        let is_new = namespaces.iter().all(|other| other.name != namespace.name);
        if is_new {
            namespaces.push(Arc::clone(namespace));
        }
        is_new
    }

    fn list(&self) -> Vec<Arc<Namespace>> {
        self.namespaces.read().clone()
    }

    /// Returns how many containers were found alive in pods that are absent or have stopped.
    pub(crate) fn n_stray(&self) -> u64 {
        self.list().iter().map(|namespace| namespace.n_stray.load(Ordering::Relaxed)).sum()
    }

    /// Returns the deadline of domain calls that begin now.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.limit
    }

    /// Adds everything that the domains have, before plugins are told of anything. Fails with the
    /// name of the first namespace whose inventory could not be read.
    pub(crate) async fn fill(&self) -> Result<(), String> {
        for (namespace, inventory) in self.inventories(self.deadline()).await {
            namespace.fill(inventory.ok_or_else(|| namespace.name.clone())?);
        }
        Ok(())
    }

    /// Reads the inventories of all domains, concurrently. A failed call is logged and gives
    /// `None`.
    async fn inventories(&self, deadline: Instant) -> Vec<(Arc<Namespace>, Option<Inventory>)> {
        let reading = self.list().into_iter().map(|namespace| async move {
            let inventory = namespace.inventory(deadline).await;
            (namespace, inventory)
        });
        join_all(reading).await
    }
}
