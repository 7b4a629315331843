//! Implements `nri_api::Domain` over the server's pods and containers.
//!
//! Files, lowest first:
//!
//! - `error.rs` has the error of an update.
//! - `restored_limits.rs` computes the limits that undo a failed update.

mod error;
mod restored_limits;

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nri_api::queue::KeyedQueue;
use nri_api::{Domain, DomainError, Inventory, KnownPod};
use nri_proto::{Container, Eviction, Field, Pod, Resources, Update};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing::warn;

pub use self::error::{FieldNames, LimitError};
use self::restored_limits::{RestoredLimits, restored_limits};
use crate::generator::{self, ApplyReport, Host};
use crate::limits;
use crate::model::{ContainerRecord, PodRef, PodState, ServerSettings};
use crate::runtime::{ContainerLimits, Runtime, RuntimeError};
use crate::store::Store;
use crate::to_nri;

/// The pods and containers of a CRI server as a domain of NRI. A [`Store`] remembers them, and a
/// [`Runtime`] runs them.
///
/// Updates of one container run one after the other, whether a plugin or the kubelet requests them.
/// Each update starts from the result of the previous one. New limits are applied to the OCI spec
/// of the container as a whole or not at all. Then the runtime gets the complete limits, and the
/// store records them only if the runtime has set them. If the runtime fails, the previous limits
/// are restored, and limits that did not exist before are reset.
pub struct CriDomain {
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    host: Host,
    settings: ServerSettings,
    /// Updates wait here by container id. No plugin is asked during a turn, so a plugin may request
    /// an update from within its own handler.
    updates: KeyedQueue,
    /// The limits that the runtime got last, by container id. An entry exists while an update runs,
    /// and stays if the update is cancelled, because its result is then unknown.
    last_sent: Mutex<HashMap<String, Value>>,
}

impl CriDomain {
    /// Creates a domain. The generator queries this machine through `host`.
    pub fn new(store: Arc<dyn Store>, runtime: Arc<dyn Runtime>, host: Host, settings: ServerSettings) -> Self {
        Self { store, runtime, host, settings, updates: KeyedQueue::default(), last_sent: Mutex::default() }
    }

    /// Returns the functions through which the generator queries this machine.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the settings of the server.
    pub fn settings(&self) -> &ServerSettings {
        &self.settings
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Returns the pod with this id, or [`PodRef::Unknown`] if the store does not have the pod.
    pub fn pod_ref(&self, id: &str) -> PodRef {
        match self.store.pod(id) {
            Some(record) => PodRef::Known(record),
            None => PodRef::Unknown { id: id.to_owned() },
        }
    }

    /// Returns a pod as plugins see it. If the store does not have the pod, only the id is set.
    pub fn pod(&self, id: &str) -> Pod {
        to_nri::pod(&self.pod_ref(id))
    }

    /// Returns a container as plugins see it, or `None` if the store does not have the container.
    pub fn container(&self, id: &str) -> Option<Container> {
        self.store.container(id).map(|record| self.to_nri(&record))
    }

    pub(crate) fn to_nri(&self, record: &ContainerRecord) -> Container {
        to_nri::container(record, &self.settings)
    }

    /// Sets new limits of a container, and records them in the store. No plugin is asked: callers
    /// ask plugins before.
    ///
    /// # Errors
    ///
    /// Fails if the container has gone, or if the limits cannot be set. The container then keeps
    /// its previous limits.
    pub async fn limit(&self, id: &str, resources: &Resources) -> Result<(), LimitError> {
        let _turn = self.updates.enqueue(id).turn().await;
        let record = self.store.container(id).filter(|record| record.status.is_alive()).ok_or(LimitError::Gone)?;
        let before = self.current_spec(&record)?;
        let changes = new_limits(&before, resources);
        self.check_supported(id, &changes)?;
        let mut spec = before.clone();
        let updated = generator::update(&mut spec, &changes, &self.host);
        let ApplyReport { ignored, overridden } =
            updated.map_err(|source| LimitError::Spec { container: id.to_owned(), source })?;
        if !ignored.is_empty() {
            return Err(LimitError::Unsupported { container: id.to_owned(), fields: FieldNames(ignored) });
        }
        log_overridden(id, &overridden);
        self.set_limits(id, &before, &spec).await?;
        self.store.change_container(id, &mut |record| record_limits(record, &spec, resources));
        Ok(())
    }

    /// Returns the spec of the container. If the store has no spec, returns one with the limits
    /// that the kubelet requested.
    fn current_spec(&self, record: &ContainerRecord) -> Result<Value, LimitError> {
        if let Some(spec) = record.spec.as_deref() {
            return Ok(spec.clone());
        }
        let mut spec = json!({});
        if let Some(resources) = &record.config.resources {
            generator::update(&mut spec, resources, &self.host)
                .map_err(|source| LimitError::UnknownLimits { container: record.id.clone(), source })?;
        }
        Ok(spec)
    }

    /// Refuses an update if the runtime cannot change one of its limits.
    fn check_supported(&self, id: &str, resources: &Resources) -> Result<(), LimitError> {
        let fields: Vec<Field> =
            limits::fields(resources).into_iter().filter(|field| !self.runtime.can_update(*field)).collect();
        if fields.is_empty() {
            return Ok(());
        }
        Err(LimitError::Unsupported { container: id.to_owned(), fields: FieldNames(fields) })
    }

    /// Sets the limits of a spec. If the runtime fails, restores the limits of the previous spec.
    async fn set_limits(&self, id: &str, before: &Value, after: &Value) -> Result<(), LimitError> {
        let unconfirmed = self.last_sent.lock().get(id).cloned().unwrap_or_default();
        let sent = self.limits_with_resets(id, after, &unconfirmed);
        let source = match self.update_runtime(id, &sent).await {
            Ok(()) => return Ok(()),
            Err(RuntimeError::Gone) => return Err(LimitError::Gone),
            Err(RuntimeError::Failed(source)) => source,
        };
        if let Err(error) = self.update_runtime(id, &self.limits_with_resets(id, before, &sent.resources)).await {
            warn!(container = id, error = &error as &dyn Error, "could not restore the previous limits");
        }
        Err(LimitError::Runtime { container: id.to_owned(), source })
    }

    /// Returns the limits of a spec. Limits that were tried before and are not in the spec are
    /// reset.
    fn limits_with_resets(&self, id: &str, spec: &Value, tried: &Value) -> ContainerLimits {
        let ContainerLimits { resources, rdt } = limits_of(spec);
        let RestoredLimits { resources, not_restored } = restored_limits(&resources, tried, self.host.cgroup_v2);
        if !not_restored.is_empty() {
            warn!(container = id, limits = not_restored.join(", "), "limits of a failed update cannot be reset");
        }
        ContainerLimits { resources, rdt }
    }

    /// Sends limits to the runtime. If the caller cancels, the limits stay in `last_sent`: the
    /// runtime may or may not have set them.
    async fn update_runtime(&self, id: &str, limits: &ContainerLimits) -> Result<(), RuntimeError> {
        {
            let mut last_sent = self.last_sent.lock();
            // Containers that have gone meanwhile need no entry.
            last_sent.retain(|id, _| self.store.container(id).is_some_and(|record| record.status.is_alive()));
            last_sent.insert(id.to_owned(), limits.resources.clone());
        }
        let result = self.runtime.update(id, limits).await;
        self.last_sent.lock().remove(id);
        result
    }

    /// Stops a container. The container has the time `grace` to end by itself.
    async fn stop(&self, id: &str, grace: Duration) -> Result<(), RuntimeError> {
        let is_alive = self.store.container(id).is_some_and(|record| record.status.is_alive());
        if is_alive { self.runtime.stop(id, grace).await } else { Err(RuntimeError::Gone) }
    }
}

/// Logs limits that have no effect because the spec also sets their cgroup files.
pub(crate) fn log_overridden(id: &str, fields: &[Field]) {
    if !fields.is_empty() {
        warn!(container = id, fields = %FieldNames(fields.to_vec()), "limits are overridden by cgroup files of the same request");
    }
}

/// Returns the limits of an update that differ from those of the spec. The kubelet always names
/// every huge page size of the host, with a limit of 0 for sizes that the container does not use.
fn new_limits(before: &Value, resources: &Resources) -> Resources {
    let known = before.pointer("/linux/resources/hugepageLimits").and_then(Value::as_array);
    let limit_of = |page_size: &str| {
        let known = known.into_iter().flatten().find(|known| known["pageSize"] == page_size);
        known.and_then(|known| known["limit"].as_u64()).unwrap_or(0)
    };
    let mut changes = resources.clone();
    changes.hugepage_limits.retain(|new| new.limit != limit_of(&new.page_size));
    changes
}

#[async_trait]
impl Domain for CriDomain {
    async fn inventory(&self) -> Inventory {
        let pods = self.store.pods().into_iter().map(|record| {
            let state = match record.status.state {
                PodState::Ready => nri_api::PodState::Running,
                PodState::NotReady => nri_api::PodState::Stopped,
                PodState::Unknown => nri_api::PodState::Unknown,
            };
            KnownPod { pod: to_nri::pod(&PodRef::Known(record)), state }
        });
        let containers = self.store.containers();
        let containers = containers.iter().map(|record| to_nri::container(record, &self.settings));
        Inventory { pods: pods.collect(), containers: containers.collect() }
    }

    async fn containers(&self, ids: &[String]) -> Vec<Container> {
        let records = ids.iter().filter_map(|id| self.store.container(id));
        records.map(|record| to_nri::container(&record, &self.settings)).collect()
    }

    async fn update(&self, update: Update) -> Result<(), DomainError> {
        let Some(resources) = update.resources() else { return Ok(()) };
        self.limit(&update.container_id, resources).await.map_err(|error| match error {
            LimitError::Gone => DomainError::Gone,
            LimitError::Unsupported { .. }
            | LimitError::UnknownLimits { .. }
            | LimitError::Spec { .. }
            | LimitError::Runtime { .. } => DomainError::failed(error),
        })
    }

    async fn evict(&self, eviction: Eviction) -> Result<(), DomainError> {
        self.stop(&eviction.container_id, Duration::ZERO).await.map_err(|error| match error {
            RuntimeError::Gone => DomainError::Gone,
            RuntimeError::Failed(source) => DomainError::Failed(source),
        })
    }
}

impl fmt::Debug for CriDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CriDomain").field("host", &self.host).field("settings", &self.settings).finish_non_exhaustive()
    }
}

fn limits_of(spec: &Value) -> ContainerLimits {
    let section = |path| spec.pointer(path).filter(|section| section.is_object()).cloned();
    ContainerLimits {
        resources: section("/linux/resources").unwrap_or_else(|| json!({})),
        rdt: section("/linux/intelRdt"),
    }
}

fn record_limits(record: &mut ContainerRecord, spec: &Value, resources: &Resources) {
    match &mut record.spec {
        Some(known) => *known = Arc::new(spec.clone()),
        None => record.config.resources = spec.pointer("/linux/resources").map(to_nri::resources),
    }
    let class = |class: &Option<String>| class.clone().filter(|class| !class.is_empty());
    if resources.blockio_class.is_some() {
        record.config.blockio_class = class(&resources.blockio_class);
    }
    if resources.rdt_class.is_some() {
        record.config.rdt_class = class(&resources.rdt_class);
    }
}
