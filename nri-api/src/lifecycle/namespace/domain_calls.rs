//! Calls of a namespace's domain, limited in time.

use nri_proto::{Container, Eviction, Update};
use tokio::time::Instant;
use tracing::error;

use super::Namespace;
use crate::domain::Inventory;
use crate::domain::timeout::{DomainCallError, call, change};

impl Namespace {
    /// Reads the domain's inventory. Logs an error and returns `None` if the call fails.
    pub(crate) async fn inventory(&self, deadline: Instant) -> Option<Inventory> {
        self.read_domain(deadline, async { self.domain.inventory().await }).await
    }

    /// Looks these containers up in the domain. Returns none if the call fails.
    pub(crate) async fn look_up(&self, ids: &[String], deadline: Instant) -> Vec<Container> {
        self.read_domain(deadline, async { self.domain.containers(ids).await }).await.unwrap_or_default()
    }

    async fn read_domain<T>(&self, deadline: Instant, reading: impl Future<Output = T>) -> Option<T> {
        match call(deadline, reading).await {
            Ok(outcome) => Some(outcome),
            Err(error) => {
                let (namespace, error) = (&self.name, &error as &dyn std::error::Error);
                error!(namespace, error, "could not read the inventory of a domain");
                None
            }
        }
    }

    /// Gives a container new limits, for a plugin.
    pub(crate) async fn update(&self, update: Update, deadline: Instant) -> Result<(), DomainCallError> {
        change(deadline, async { self.domain.update(update).await }).await
    }

    /// Stops a container, for a plugin.
    pub(crate) async fn evict(&self, eviction: Eviction, deadline: Instant) -> Result<(), DomainCallError> {
        change(deadline, async { self.domain.evict(eviction).await }).await
    }
}
