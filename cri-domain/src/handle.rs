//! The calls of a CRI server to NRI: one for each call that the server serves.
//!
//! Callers pass an id, and the handle builds what plugins see from the store. An operation that may
//! still fail is a guard of `nri-api`. Commit the guard when the operation has succeeded, or drop
//! it when the operation has failed: the plugins that were notified are then notified of the
//! failure.
//!
//! If NRI is disabled, a call costs one look into the store: it converts no record and copies no
//! spec.
//!
//! Files:
//!
//! - `error.rs` has the errors of the calls.

mod error;

use std::sync::Arc;

use nri_api::queue::{KeyedQueue, QueueTurn};
use nri_api::{Creation, Error, Handle, Nri, ObjectKind, PodRun, PodUpdate, RegisterError, Start};
use nri_proto::{Adjustment, Change, Container, Field, Pod, Resources};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use tracing::warn;

pub use self::error::{AdjustError, AskError, UpdateError};
use crate::domain::{CriDomain, FieldNames, LimitError, log_overridden};
use crate::generator::host::check_cgroup_parent;
use crate::generator::{self, Host, SpecError};
use crate::limits;
use crate::model::{ContainerRecord, Exit, PodRecord, PodRef, PodState, ServerSettings};
use crate::to_nri;

/// The handle through which a CRI server calls NRI. Clones share their state.
#[derive(Clone)]
pub struct CriHandle {
    handle: Handle,
    domain: Arc<CriDomain>,
    /// Updates from the kubelet wait here by container id. A turn begins before plugins are asked
    /// and ends when the limits are set.
    updates: KeyedQueue,
    deadline: Option<Instant>,
}

impl CriHandle {
    /// Registers the server's pods and containers with NRI. The namespace `k8s.io` is containerd's
    /// name for them.
    ///
    /// # Errors
    ///
    /// Fails if the namespace is registered already, or if NRI has started.
    pub fn register(nri: &Nri, namespace: &str, domain: Arc<CriDomain>) -> Result<Self, RegisterError> {
        let handle = nri.register(namespace, Arc::clone(&domain) as Arc<_>)?;
        Ok(Self { handle, domain, updates: KeyedQueue::default(), deadline: None })
    }

    /// Returns a clone of the handle whose requests end at this deadline.
    #[must_use]
    pub fn until(&self, deadline: Instant) -> Self {
        Self { handle: self.handle.until(deadline), deadline: Some(deadline), ..self.clone() }
    }

    /// Returns the handle of `nri-api`, for calls that this type does not have.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Returns the domain that was registered.
    pub fn domain(&self) -> &Arc<CriDomain> {
        &self.domain
    }

    /// Asks plugins whether a pod may run. Call this when the sandbox and its addresses exist,
    /// before the store has the pod. Call [`commit`](PodRun::commit) once the store has the pod.
    ///
    /// # Errors
    ///
    /// Fails if a plugin refuses the pod, or if plugins could not be asked.
    pub async fn run_pod(&self, pod: &PodRecord) -> Result<PodRun, Error> {
        let pod = self.if_enabled(|| to_nri::pod(&PodRef::Known(Arc::new(pod.clone()))));
        self.handle.run_pod(pod).await
    }

    /// Asks plugins whether a pod may get new limits. Once the store has the limits, call
    /// [`updated`](PodUpdate::updated) with the result of [`pod`](Self::pod).
    ///
    /// # Errors
    ///
    /// Fails if the store does not have the pod, if a plugin refuses the limits, or if plugins
    /// could not be asked.
    pub async fn update_pod(
        &self,
        id: &str,
        overhead: Option<Resources>,
        resources: Option<Resources>,
    ) -> Result<PodUpdate, AskError> {
        let pod = self.domain.pod_ref(id);
        if let PodRef::Unknown { id } = &pod {
            return Err(AskError::unknown(ObjectKind::Pod, id));
        }
        Ok(self.handle.update_pod(self.if_enabled(|| to_nri::pod(&pod)), overhead, resources).await?)
    }

    /// Notifies plugins that a pod was stopped. Call this when its containers have ended, while its
    /// sandbox still exists.
    ///
    /// # Errors
    ///
    /// Fails if a plugin failed to handle the event. The pod is stopped nevertheless.
    pub async fn stop_pod(&self, id: &str) -> Result<(), Error> {
        self.handle.stop_pod(self.pod(id)).await
    }

    /// Notifies plugins that a pod is being removed. Call this while the store still has the pod.
    ///
    /// # Errors
    ///
    /// Fails if a plugin failed to handle the event. The pod is removed nevertheless.
    pub async fn remove_pod(&self, id: &str) -> Result<(), Error> {
        self.handle.remove_pod(self.pod(id)).await
    }

    /// Asks plugins about a container that is being created, and applies their adjustment to its
    /// spec. See [`adjust`].
    ///
    /// # Errors
    ///
    /// Fails as [`adjust`] does.
    pub async fn create_container(&self, container: &mut ContainerRecord) -> Result<AdjustedContainer, AdjustError> {
        let pod = self.domain.pod_ref(&container.pod_id);
        adjust(&self.handle, &pod, container, self.domain.host(), self.domain.settings()).await
    }

    /// Asks plugins whether a container may start. Once the container has started and the store
    /// says so, call [`started`](Start::started) with the result of [`container`](Self::container).
    ///
    /// # Errors
    ///
    /// Fails if the store does not have the container, if a plugin refuses the start, or if plugins
    /// could not be asked.
    pub async fn start_container(&self, id: &str) -> Result<Start, AskError> {
        let Some(record) = self.domain.store().container(id) else {
            return Err(AskError::unknown(ObjectKind::Container, id));
        };
        let (pod, container) = (self.pod(&record.pod_id), self.if_enabled(|| self.domain.to_nri(&record)));
        Ok(self.handle.start_container(pod, container).await?)
    }

    /// Updates the limits of a container as the kubelet requests. Plugins are asked and may change
    /// the limits, the runtime and the store get the result, and then plugins are notified. Updates
    /// of one container run in the order in which plugins see them.
    ///
    /// # Errors
    ///
    /// Fails if a plugin refuses the update, or if the limits cannot be set. The container keeps
    /// its previous limits.
    pub async fn update_container(&self, id: &str, resources: Resources) -> Result<(), UpdateError> {
        let _turn = self.wait_for_turn(id).await?;
        let Some(record) = self.domain.store().container(id) else {
            return Err(UpdateError::Unknown { id: id.to_owned() });
        };
        if !record.status.is_alive() {
            return Err(LimitError::Gone.into());
        }
        let (pod, container) = (self.pod(&record.pod_id), self.if_enabled(|| self.domain.to_nri(&record)));
        let update = self.handle.update_container(pod, container, Some(resources.clone())).await?;
        if let Some(mut merged) = update.resources().cloned() {
            limits::remove_stale_files(&resources, &mut merged);
            self.domain.limit(id, &merged).await?;
        }
        if let Err(error) = update.updated(self.container(id)).await {
            warn!(
                container = id,
                error = &error as &dyn std::error::Error,
                "a plugin failed to handle the notification of an update"
            );
        }
        Ok(())
    }

    /// Waits until no other update from the kubelet runs for this container.
    async fn wait_for_turn(&self, id: &str) -> Result<QueueTurn, UpdateError> {
        let turn = self.updates.enqueue(id).turn();
        match self.deadline {
            None => Ok(turn.await),
            Some(deadline) => {
                let turn = timeout_at(deadline, turn).await;
                turn.map_err(|_| UpdateError::BeingUpdated { id: id.to_owned() })
            }
        }
    }

    /// Notifies plugins that a container was stopped. Call this when the store says so.
    ///
    /// # Errors
    ///
    /// Fails if a plugin failed to handle the event. The container is stopped nevertheless.
    pub async fn stop_container(&self, id: &str) -> Result<(), Error> {
        let container = self.container(id);
        self.handle.stop_container(self.pod(&container.pod_id), container).await
    }

    /// Notifies plugins that a container is being removed. Call this while the store still has the
    /// container.
    ///
    /// # Errors
    ///
    /// Fails if a plugin failed to handle the event. The container is removed nevertheless.
    pub async fn remove_container(&self, id: &str) -> Result<(), Error> {
        let container = self.container(id);
        self.handle.remove_container(self.pod(&container.pod_id), container).await
    }

    /// Records in the store that a container has ended by itself, and notifies plugins in the
    /// background. Call this from the code that watches processes. Calls before NRI has started are
    /// allowed.
    ///
    /// Returns whether the store has the container. If not, plugins are not notified. To avoid
    /// that, put a container that was created into the store before you watch its process, or note
    /// the [exit](crate::model::ContainerStatus::exited) in the record before you put it there.
    pub fn container_exited(&self, id: &str, exit: &Exit) -> bool {
        self.domain.store().change_container(id, &mut |record| record.status.exited(exit.clone()));
        let Some(record) = self.domain.store().container(id) else {
            warn!(container = id, code = exit.code, "an unknown container has ended, plugins are not notified");
            return false;
        };
        exited(&self.handle, &self.domain.pod_ref(&record.pod_id), &record, self.domain.settings());
        true
    }

    /// Returns a pod as plugins see it. If the store does not have the pod, only the id is set. If
    /// NRI is disabled, the result is empty. [`CriDomain::pod`] does not depend on that.
    pub fn pod(&self, id: &str) -> Pod {
        self.if_enabled(|| self.domain.pod(id))
    }

    /// Returns a container as plugins see it. If the store does not have the container, only the id
    /// is set. If NRI is disabled, the result is empty. [`CriDomain::container`] does not depend on
    /// that.
    pub fn container(&self, id: &str) -> Container {
        let nothing_but_id = || Container { id: id.to_owned(), ..Container::default() };
        self.if_enabled(|| self.domain.container(id).unwrap_or_else(nothing_but_id))
    }

    /// Returns what `make` returns, or an empty value if NRI is disabled.
    fn if_enabled<T: Default>(&self, make: impl FnOnce() -> T) -> T {
        if self.handle.is_enabled() { make() } else { T::default() }
    }
}

/// A container whose spec is adjusted, and which the server is about to create.
#[must_use = "a container that is not said to be created has failed"]
pub struct AdjustedContainer {
    /// The operation. Call [`created`](Creation::created) once the store has the container, or drop
    /// it if the creation failed.
    pub creation: Creation,
    /// Fields that plugins set and this host does not support. They are logged, too.
    pub ignored: Vec<Field>,
    /// Limits that plugins set both as a field and as a cgroup file. The file takes effect. They
    /// are logged, too.
    pub overridden: Vec<Field>,
}

/// Asks plugins about a container that is being created, and applies their adjustment to its spec.
///
/// On an error the spec is unchanged, and plugins that were asked are notified that the container
/// is gone.
///
/// # Errors
///
/// Fails without asking plugins if the pod is unknown or not ready, or if the record has no spec.
/// Fails if a plugin refuses the container, or if the adjustment cannot be applied.
pub async fn adjust(
    handle: &Handle,
    pod: &PodRef,
    container: &mut ContainerRecord,
    host: &Host,
    settings: &ServerSettings,
) -> Result<AdjustedContainer, AdjustError> {
    let PodRef::Known(record) = pod else { return Err(AdjustError::UnknownPod { id: pod.id().to_owned() }) };
    if record.status.state != PodState::Ready {
        return Err(AdjustError::PodNotReady { id: record.id.clone() });
    }
    let Some(spec) = container.spec.as_deref() else {
        return Err(AdjustError::NoSpec { id: container.id.clone() });
    };
    if !handle.is_enabled() {
        let creation = handle.create_container(Pod::default(), Container::default()).await?;
        return Ok(AdjustedContainer { creation, ignored: vec![], overridden: vec![] });
    }
    let mut spec = spec.clone();
    // The future of the request is large. On the heap it does not make the caller's future large.
    let asked = handle.create_container(to_nri::pod(pod), to_nri::container(container, settings));
    let creation = Box::pin(asked).await?;
    match apply(&mut spec, &creation, record, host, settings) {
        Ok(generator::ApplyReport { ignored, overridden }) => {
            if !ignored.is_empty() {
                warn!(container = container.id, fields = %FieldNames(ignored.clone()), "unsupported fields in the adjustment ignored");
            }
            log_overridden(&container.id, &overridden);
            record_adjustment(container, creation.adjustment(), &ignored);
            container.spec = Some(Arc::new(spec));
            Ok(AdjustedContainer { creation, ignored, overridden })
        }
        Err(source) => {
            let owners = creation.owners().containers.get(&container.id);
            let plugins = owners
                .and_then(|owners| source.owner(owners))
                .map(|owner| owner.plugins().collect::<Vec<_>>().join(", "));
            Err(AdjustError::Spec { plugins: plugins.unwrap_or_else(|| "plugins".to_owned()), source })
        }
    }
}

/// Notifies plugins that a container has ended by itself, as its record says. The notification runs
/// in the background and does not fail.
///
/// ```
/// use cri_domain::handle::exited;
/// use cri_domain::model::{ContainerRecord, PodRef, ServerSettings};
/// use nri_api::Handle;
///
/// /// What a server runs when the process of a container is collected.
/// fn on_exit(handle: Handle, pod: PodRef, container: ContainerRecord) -> impl FnOnce() {
///     move || exited(&handle, &pod, &container, &ServerSettings::default())
/// }
/// ```
pub fn exited(handle: &Handle, pod: &PodRef, container: &ContainerRecord, settings: &ServerSettings) {
    if handle.is_enabled() {
        handle.container_exited(to_nri::pod(pod), to_nri::container(container, settings));
    }
}

fn apply(
    spec: &mut Value,
    creation: &Creation,
    pod: &PodRecord,
    host: &Host,
    settings: &ServerSettings,
) -> Result<generator::ApplyReport, SpecError> {
    let adjustment = creation.adjustment();
    let cgroup = adjustment.linux.as_ref().map(|linux| linux.cgroups_path.as_str()).unwrap_or_default();
    if !(settings.any_cgroup || cgroup.is_empty()) {
        check_cgroup_parent(&pod.config.cgroup_parent, cgroup).map_err(|source| SpecError::Host {
            field: Field::CgroupsPath,
            key: String::new(),
            source: source.into(),
        })?;
    }
    generator::adjust(spec, adjustment, host)
}

/// Records what the spec cannot show. A spec has no names of classes and CDI devices, and does not
/// show that an annotation of the config was removed.
fn record_adjustment(container: &mut ContainerRecord, adjustment: &Adjustment, ignored: &[Field]) {
    if !ignored.contains(&Field::CdiDevices) {
        container.config.cdi_devices.extend(adjustment.cdi_devices.iter().map(|device| device.name.clone()));
    }
    let removed = adjustment.annotations.iter().filter(|(_, change)| matches!(change, Change::Remove));
    container.removed_annotations.extend(removed.map(|(key, _)| key.to_owned()));
    let Some(resources) = adjustment.linux.as_ref().and_then(|linux| linux.resources.as_ref()) else { return };
    for (field, class, known) in [
        (Field::BlockioClass, &resources.blockio_class, &mut container.config.blockio_class),
        (Field::RdtClass, &resources.rdt_class, &mut container.config.rdt_class),
    ] {
        if let Some(class) = class.as_ref().filter(|_| !ignored.contains(&field)) {
            *known = Some(class.clone()).filter(|class| !class.is_empty());
        }
    }
}
