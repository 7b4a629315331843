//! The server's pods and containers as a domain of NRI.

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

/// The pods and containers of a CRI server, over two seams: what remembers them and what runs them.
///
/// Updates of one container are made one after the other, those of plugins and of the kubelet alike, each from what the one before
/// left. New limits are applied to the container's spec as a whole or not at all; then the runtime is told all of them, and only if
/// it could set them the store has them. Otherwise those are set again that there were, and those are lifted that there were none of.
pub struct CriDomain {
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    host: Host,
    settings: ServerSettings,
    /// Updates wait here by container id. No plugin is asked during a turn, so a plugin may request
    /// an update from within its own handler.
    updates: KeyedQueue,
    /// What the runtime was told last of containers whose update is under way, or was given up half-way.
    last_sent: Mutex<HashMap<String, Value>>,
}

impl CriDomain {
    /// Makes a domain. The host is what the generator asks about this machine.
    pub fn new(store: Arc<dyn Store>, runtime: Arc<dyn Runtime>, host: Host, settings: ServerSettings) -> Self {
        Self { store, runtime, host, settings, updates: KeyedQueue::default(), last_sent: Mutex::default() }
    }

    /// Returns what the generator asks.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Returns what the server is set to.
    pub fn settings(&self) -> &ServerSettings {
        &self.settings
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Returns the pod of this id, which may not be known.
    pub fn pod_ref(&self, id: &str) -> PodRef {
        match self.store.pod(id) {
            Some(record) => PodRef::Known(record),
            None => PodRef::Unknown { id: id.to_owned() },
        }
    }

    /// Returns a pod as plugins see it. Of one that is not known there is the id.
    pub fn pod(&self, id: &str) -> Pod {
        to_nri::pod(&self.pod_ref(id))
    }

    /// Returns a container as plugins see it, if it is known.
    pub fn container(&self, id: &str) -> Option<Container> {
        self.store.container(id).map(|record| self.to_nri(&record))
    }

    pub(crate) fn to_nri(&self, record: &ContainerRecord) -> Container {
        to_nri::container(record, &self.settings)
    }

    /// Gives a container new limits, and remembers them. Nobody is asked: this is what follows when plugins were.
    ///
    /// # Errors
    ///
    /// The container has gone, or the limits cannot be set: then it has those that it had.
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

    /// The container's spec; of one whose spec was not kept, what it would say of limits.
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

    /// What cannot be done is refused before anything is.
    fn check_supported(&self, id: &str, resources: &Resources) -> Result<(), LimitError> {
        let fields: Vec<Field> =
            limits::fields(resources).into_iter().filter(|field| !self.runtime.can_update(*field)).collect();
        if fields.is_empty() {
            return Ok(());
        }
        Err(LimitError::Unsupported { container: id.to_owned(), fields: FieldNames(fields) })
    }

    /// Sets the limits of a spec. If some cannot be set, those are set again that there were.
    async fn set_limits(&self, id: &str, before: &Value, after: &Value) -> Result<(), LimitError> {
        let given_up = self.last_sent.lock().get(id).cloned().unwrap_or_default();
        let told = self.limits_with_resets(id, after, &given_up);
        let source = match self.update_runtime(id, &told).await {
            Ok(()) => return Ok(()),
            Err(RuntimeError::Gone) => return Err(LimitError::Gone),
            Err(RuntimeError::Failed(source)) => source,
        };
        if let Err(error) = self.update_runtime(id, &self.limits_with_resets(id, before, &told.resources)).await {
            warn!(container = id, error = &error as &dyn Error, "could not set the limits again that there were");
        }
        Err(LimitError::Runtime { container: id.to_owned(), source })
    }

    /// Returns the limits of a spec, which also lift what was tried before.
    fn limits_with_resets(&self, id: &str, spec: &Value, tried: &Value) -> ContainerLimits {
        let ContainerLimits { resources, rdt } = limits_of(spec);
        let RestoredLimits { resources, not_restored } = restored_limits(&resources, tried, self.host.cgroup_v2);
        if !not_restored.is_empty() {
            warn!(container = id, limits = not_restored.join(", "), "these were not set before, and cannot be lifted");
        }
        ContainerLimits { resources, rdt }
    }

    /// Tells the runtime. If nobody waits for its answer any more, it is noted what it was told: who can say what came of it?
    async fn update_runtime(&self, id: &str, limits: &ContainerLimits) -> Result<(), RuntimeError> {
        {
            let mut last_sent = self.last_sent.lock();
            // What has gone meanwhile needs no notes.
            last_sent.retain(|id, _| self.store.container(id).is_some_and(|record| record.status.is_alive()));
            last_sent.insert(id.to_owned(), limits.resources.clone());
        }
        let told = self.runtime.update(id, limits).await;
        self.last_sent.lock().remove(id);
        told
    }

    /// Stops a container: it may end by itself for so long.
    async fn stop(&self, id: &str, grace: Duration) -> Result<(), RuntimeError> {
        let is_there = self.store.container(id).is_some_and(|record| record.status.is_alive());
        if is_there { self.runtime.stop(id, grace).await } else { Err(RuntimeError::Gone) }
    }
}

/// Says which limits do not count, because a file says something else.
pub(crate) fn log_overridden(id: &str, fields: &[Field]) {
    if !fields.is_empty() {
        warn!(container = id, fields = %FieldNames(fields.to_vec()), "limits are also asked for as files of cgroups, which count");
    }
}

/// What of new limits is new. The kubelet always names every page size of the host, with no pages where none are asked for.
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
