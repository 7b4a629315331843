//! The server's pods and containers as a domain of NRI.

mod restored_limits;

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nri_api::queue::KeyedQueue;
use nri_api::{Domain, DomainError, Inventory, KnownPod};
use nri_proto::{Container, ContainerState, Eviction, Field, Pod, Resources, Update};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing::warn;

use self::restored_limits::{Again, again};
use crate::generator::{self, Adjusted, Host, SpecError};
use crate::limits;
use crate::model::{ContainerRecord, PodRef, PodState};
use crate::runtime::{Limits, Runtime, RuntimeError};
use crate::store::Store;
use crate::to_nri::{self, Settings};

/// The pods and containers of a CRI server, over two seams: what remembers them and what runs them.
///
/// Updates of one container are made one after the other, those of plugins and of the kubelet alike, each from what the one before
/// left. New limits are applied to the container's spec as a whole or not at all; then the runtime is told all of them, and only if
/// it could set them the store has them. Otherwise those are set again that there were, and those are lifted that there were none of.
pub struct CriDomain {
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    host: Host,
    settings: Settings,
    /// Updates wait here by container id. No plugin is asked during a turn, so a plugin may request
    /// an update from within its own handler.
    updates: KeyedQueue,
    /// What the runtime was told last of containers whose update is under way, or was given up half-way.
    unsettled: Mutex<HashMap<String, Value>>,
}

impl CriDomain {
    /// Makes a domain. The host is what the generator asks about this machine.
    pub fn new(store: Arc<dyn Store>, runtime: Arc<dyn Runtime>, host: Host, settings: Settings) -> Self {
        Self { store, runtime, host, settings, updates: KeyedQueue::default(), unsettled: Mutex::default() }
    }

    /// Returns what the generator asks.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Returns what the server is set to.
    pub fn settings(&self) -> &Settings {
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
        self.store.container(id).map(|record| self.words(&record))
    }

    pub(crate) fn words(&self, record: &ContainerRecord) -> Container {
        to_nri::container(record, &self.settings)
    }

    /// Gives a container new limits, and remembers them. Nobody is asked: this is what follows when plugins were.
    ///
    /// # Errors
    ///
    /// The container has gone, or the limits cannot be set: then it has those that it had.
    pub async fn limit(&self, id: &str, resources: &Resources) -> Result<(), LimitError> {
        let _turn = self.updates.enqueue(id).turn().await;
        let record = self.store.container(id).filter(|record| is_there(record)).ok_or(LimitError::Gone)?;
        let before = self.limited(&record)?;
        let changes = changed(&before, resources);
        self.check(id, &changes)?;
        let mut spec = before.clone();
        let updated = generator::update(&mut spec, &changes, &self.host);
        let Adjusted { ignored, overridden } =
            updated.map_err(|source| LimitError::Spec { container: id.to_owned(), source })?;
        if !ignored.is_empty() {
            return Err(LimitError::Unsupported { container: id.to_owned(), fields: Fields(ignored) });
        }
        tell_overridden(id, &overridden);
        self.set(id, &before, &spec).await?;
        self.store.change_container(id, &mut |record| remember(record, &spec, resources));
        Ok(())
    }

    /// The container's spec; of one whose spec was not kept, what it would say of limits.
    fn limited(&self, record: &ContainerRecord) -> Result<Value, LimitError> {
        if let Some(spec) = record.spec.as_deref() {
            return Ok(spec.clone());
        }
        let mut spec = json!({});
        if let Some(resources) = &record.config.resources {
            generator::update(&mut spec, resources, &self.host)
                .map_err(|source| LimitError::Known { container: record.id.clone(), source })?;
        }
        Ok(spec)
    }

    /// What cannot be done is refused before anything is.
    fn check(&self, id: &str, resources: &Resources) -> Result<(), LimitError> {
        let fields: Vec<Field> =
            limits::fields(resources).into_iter().filter(|field| !self.runtime.can_update(*field)).collect();
        if fields.is_empty() {
            return Ok(());
        }
        Err(LimitError::Unsupported { container: id.to_owned(), fields: Fields(fields) })
    }

    /// Sets the limits of a spec. If some cannot be set, those are set again that there were.
    async fn set(&self, id: &str, before: &Value, after: &Value) -> Result<(), LimitError> {
        let given_up = self.unsettled.lock().get(id).cloned().unwrap_or_default();
        let told = self.lifting(id, after, &given_up);
        let source = match self.tell(id, &told).await {
            Ok(()) => return Ok(()),
            Err(RuntimeError::Gone) => return Err(LimitError::Gone),
            Err(RuntimeError::Failed(source)) => source,
        };
        if let Err(error) = self.tell(id, &self.lifting(id, before, &told.resources)).await {
            warn!(container = id, error = &error as &dyn Error, "could not set the limits again that there were");
        }
        Err(LimitError::Runtime { container: id.to_owned(), source })
    }

    /// Returns the limits of a spec, which also lift what was tried before.
    fn lifting(&self, id: &str, spec: &Value, tried: &Value) -> Limits {
        let Limits { resources, rdt } = limits_of(spec);
        let Again { resources, left } = again(&resources, tried, self.host.cgroup_v2);
        if !left.is_empty() {
            warn!(container = id, limits = left.join(", "), "these were not set before, and cannot be lifted");
        }
        Limits { resources, rdt }
    }

    /// Tells the runtime. If nobody waits for its answer any more, it is noted what it was told: who can say what came of it?
    async fn tell(&self, id: &str, limits: &Limits) -> Result<(), RuntimeError> {
        {
            let mut unsettled = self.unsettled.lock();
            // What has gone meanwhile needs no notes.
            unsettled.retain(|id, _| self.store.container(id).is_some_and(|record| is_there(&record)));
            unsettled.insert(id.to_owned(), limits.resources.clone());
        }
        let told = self.runtime.update(id, limits).await;
        self.unsettled.lock().remove(id);
        told
    }

    /// Stops a container: it may end by itself for so long.
    async fn stop(&self, id: &str, grace: Duration) -> Result<(), RuntimeError> {
        let is_there = self.store.container(id).is_some_and(|record| is_there(&record));
        if is_there { self.runtime.stop(id, grace).await } else { Err(RuntimeError::Gone) }
    }
}

/// Says which limits do not count, because a file says something else.
pub(crate) fn tell_overridden(id: &str, fields: &[Field]) {
    if !fields.is_empty() {
        warn!(container = id, fields = %Fields(fields.to_vec()), "limits are also asked for as files of cgroups, which count");
    }
}

/// What of new limits is new. The kubelet always names every page size of the host, with no pages where none are asked for.
fn changed(before: &Value, resources: &Resources) -> Resources {
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
            | LimitError::Known { .. }
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

/// What has ended, or is not known to be there, has no limits that could change.
pub(crate) fn is_there(record: &ContainerRecord) -> bool {
    matches!(record.status.state, ContainerState::Created | ContainerState::Running | ContainerState::Paused)
}

fn limits_of(spec: &Value) -> Limits {
    let section = |path| spec.pointer(path).filter(|section| section.is_object()).cloned();
    Limits { resources: section("/linux/resources").unwrap_or_else(|| json!({})), rdt: section("/linux/intelRdt") }
}

fn remember(record: &mut ContainerRecord, spec: &Value, resources: &Resources) {
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

/// Why a container has not got new limits. It has those that it had.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// It has ended, or is not known.
    #[error("the container has gone")]
    Gone,
    /// There are limits among them that nobody here can change.
    #[error("cannot update container {container}: {fields} cannot be changed here")]
    Unsupported {
        /// The container.
        container: String,
        /// Those limits.
        fields: Fields,
    },
    /// Its spec was not kept, and the limits that it was asked for with cannot be meant: nobody knows which ones it has.
    #[error("cannot update container {container}, whose limits are not known")]
    Known {
        /// The container.
        container: String,
        /// What is wrong with those that were asked for.
        source: SpecError,
    },
    /// They cannot be meant, or the operator does not allow them.
    #[error("cannot update container {container}")]
    Spec {
        /// The container.
        container: String,
        /// What is wrong with them.
        source: SpecError,
    },
    /// The runtime could not set them.
    #[error("could not update container {container}")]
    Runtime {
        /// The container.
        container: String,
        /// What it said.
        source: Box<dyn Error + Send + Sync>,
    },
}

/// Fields, to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields(pub Vec<Field>);

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&names.join(", "))
    }
}
