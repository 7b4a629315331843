//! Where a CRI server calls NRI: one call in each of its own.
//!
//! What plugins are shown is made of what the store has, so that a call takes an id. What is begun and may fail is a guard of
//! `nri-api`: say its last word when it is done, or drop it when it has failed, and the plugins that heard of it hear that, too.
//!
//! With NRI disabled a call is a look into the store: no words are made, and no spec is copied.

mod error;

use std::sync::Arc;

use nri_api::{Creation, Error, Handle, Nri, ObjectKind, PodRun, PodUpdate, RegisterError, Start};
use nri_proto::{Adjustment, Change, Container, Field, Pod, Resources};
use serde_json::Value;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout_at};
use tracing::warn;

pub use self::error::{AdjustError, AskError, UpdateError};
use crate::domain::{CriDomain, Fields, LimitError, is_there, tell_overridden};
use crate::generator::host::below;
use crate::generator::{self, Host, SpecError};
use crate::limits;
use crate::records::{ContainerRecord, Exit, PodRecord, PodRef, PodState};
use crate::turns::Turns;
use crate::words::{self, Settings};

/// A CRI server's way to NRI. A clone is the same one.
#[derive(Clone)]
pub struct Hooks {
    handle: Handle,
    domain: Arc<CriDomain>,
    /// Of the kubelet's updates.
    turns: Arc<Turns>,
    deadline: Option<Instant>,
}

impl Hooks {
    /// Registers the server's pods and containers, under containerd's name for them if `namespace` is `k8s.io`.
    ///
    /// # Errors
    ///
    /// Something is registered under this name, or NRI was started.
    pub fn register(nri: &Nri, namespace: &str, domain: Arc<CriDomain>) -> Result<Self, RegisterError> {
        let handle = nri.register(namespace, Arc::clone(&domain) as Arc<_>)?;
        Ok(Self { handle, domain, turns: Arc::default(), deadline: None })
    }

    /// The same, with a deadline of the caller's own for what is asked through it.
    #[must_use]
    pub fn until(&self, deadline: Instant) -> Self {
        Self { handle: self.handle.until(deadline), deadline: Some(deadline), ..self.clone() }
    }

    /// Returns the handle, for what is not here.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Returns the domain.
    pub fn domain(&self) -> &Arc<CriDomain> {
        &self.domain
    }

    /// Asks whether a pod may run. Its sandbox is there, with its addresses; the store does not have it yet. Once it has, say
    /// [`commit`](PodRun::commit).
    ///
    /// # Errors
    ///
    /// A plugin does not let it.
    pub async fn run_pod(&self, pod: &PodRecord) -> Result<PodRun, Error> {
        let pod = self.shown(|| words::pod(&PodRef::Known(Arc::new(pod.clone()))));
        self.handle.run_pod(pod).await
    }

    /// Asks whether a pod may get new limits. Once the store has them, say [`updated`](PodUpdate::updated) with
    /// [`pod`](Self::pod).
    ///
    /// # Errors
    ///
    /// The store does not have it, or a plugin does not let it.
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
        Ok(self.handle.update_pod(self.shown(|| words::pod(&pod)), overhead, resources).await?)
    }

    /// A pod's containers have ended, and its sandbox is still there.
    ///
    /// # Errors
    ///
    /// A plugin failed. The pod is stopped all the same.
    pub async fn stop_pod(&self, id: &str) -> Result<(), Error> {
        self.handle.stop_pod(self.pod(id)).await
    }

    /// A pod is removed. The store still has it.
    ///
    /// # Errors
    ///
    /// A plugin failed. The pod is removed all the same.
    pub async fn remove_pod(&self, id: &str) -> Result<(), Error> {
        self.handle.remove_pod(self.pod(id)).await
    }

    /// Asks plugins about a container that is being created, and applies what they want to its spec. See [`adjust`].
    ///
    /// # Errors
    ///
    /// As [`adjust`].
    pub async fn create_container(&self, container: &mut ContainerRecord) -> Result<Adjusted, AdjustError> {
        let pod = self.domain.pod_ref(&container.pod_id);
        adjust(&self.handle, &pod, container, self.domain.host(), self.domain.settings()).await
    }

    /// Asks whether a container may start. Once it has, and the store says so, say [`started`](Start::started) with
    /// [`container`](Self::container).
    ///
    /// # Errors
    ///
    /// The store does not have it, or a plugin does not let it.
    pub async fn start_container(&self, id: &str) -> Result<Start, AskError> {
        let Some(record) = self.domain.store().container(id) else {
            return Err(AskError::unknown(ObjectKind::Container, id));
        };
        let (pod, container) = (self.pod(&record.pod_id), self.shown(|| self.domain.words(&record)));
        Ok(self.handle.start_container(pod, container).await?)
    }

    /// Gives a container the limits that the kubelet asks for, with what plugins change in them: they are asked, the runtime and the
    /// store get what comes of it, and then plugins are told. Two updates of one container are made in the order in which plugins see them.
    ///
    /// # Errors
    ///
    /// A plugin does not let it, or the limits cannot be set. The container has those that it had.
    pub async fn update_container(&self, id: &str, resources: Resources) -> Result<(), UpdateError> {
        let _turn = self.turn(id).await?;
        let Some(record) = self.domain.store().container(id) else {
            return Err(UpdateError::Unknown { id: id.to_owned() });
        };
        if !is_there(&record) {
            return Err(LimitError::Gone.into());
        }
        let (pod, container) = (self.pod(&record.pod_id), self.shown(|| self.domain.words(&record)));
        let update = self.handle.update_container(pod, container, Some(resources.clone())).await?;
        if let Some(mut merged) = update.resources().cloned() {
            limits::let_fields_count(&resources, &mut merged);
            self.domain.limit(id, &merged).await?;
        }
        if let Err(error) = update.updated(self.container(id)).await {
            warn!(container = id, error = &error as &dyn std::error::Error, "a plugin failed to hear of an update");
        }
        Ok(())
    }

    /// Waits until no other update of the kubelet is under way for a container.
    async fn turn(&self, id: &str) -> Result<OwnedMutexGuard<()>, UpdateError> {
        let turn = self.turns.take(id);
        match self.deadline {
            None => Ok(turn.await),
            Some(deadline) => {
                let turn = timeout_at(deadline, turn).await;
                turn.map_err(|_| UpdateError::BeingUpdated { id: id.to_owned() })
            }
        }
    }

    /// A container was stopped, and the store says so.
    ///
    /// # Errors
    ///
    /// A plugin failed. The container is stopped all the same.
    pub async fn stop_container(&self, id: &str) -> Result<(), Error> {
        let container = self.container(id);
        self.handle.stop_container(self.pod(&container.pod_id), container).await
    }

    /// A container is removed. The store still has it.
    ///
    /// # Errors
    ///
    /// A plugin failed. The container is removed all the same.
    pub async fn remove_container(&self, id: &str) -> Result<(), Error> {
        let container = self.container(id);
        self.handle.remove_container(self.pod(&container.pod_id), container).await
    }

    /// A container has ended by itself: the store is told so, and then plugins, without anyone waiting for them. To be called from
    /// whatever notices it, also before NRI is started.
    ///
    /// Returns whether the store has it. If not, there is nobody whom it could be told of: put a container that was created into the store before
    /// its end is watched for, or note the [exit](crate::records::ContainerStatus::exited) in the record that is put there.
    pub fn container_exited(&self, id: &str, exit: &Exit) -> bool {
        self.domain.store().change_container(id, &mut |record| record.status.exited(exit.clone()));
        let Some(record) = self.domain.store().container(id) else {
            warn!(container = id, code = exit.code, "a container has ended that is not known: nobody is told");
            return false;
        };
        exited(&self.handle, &self.domain.pod_ref(&record.pod_id), &record, self.domain.settings());
        true
    }

    /// Returns a pod as plugins are to see it. Of one that is not known there is the id; with NRI disabled nobody sees anything, and
    /// there is nothing. [`CriDomain::pod`] has all of it in any case.
    pub fn pod(&self, id: &str) -> Pod {
        self.shown(|| self.domain.pod(id))
    }

    /// Returns a container as plugins are to see it. Of one that is not known there is the id; with NRI disabled nobody sees anything,
    /// and there is nothing. [`CriDomain::container`] has all of it in any case.
    pub fn container(&self, id: &str) -> Container {
        let nothing_but_id = || Container { id: id.to_owned(), ..Container::default() };
        self.shown(|| self.domain.container(id).unwrap_or_else(nothing_but_id))
    }

    /// Words that somebody will see.
    fn shown<T: Default>(&self, words: impl FnOnce() -> T) -> T {
        if self.handle.is_enabled() { words() } else { T::default() }
    }
}

/// A container whose spec is as plugins want it, and which is still to be created.
#[must_use = "a container that is not said to be created has failed"]
pub struct Adjusted {
    /// Say [`created`](Creation::created) once the store has the container, or drop it if it failed.
    pub creation: Creation,
    /// What plugins asked for and nobody here can do. It is in the log, too.
    pub ignored: Vec<Field>,
    /// Limits that plugins asked for as fields and as files, of which the file counts. They are in the log, too.
    pub overridden: Vec<Field>,
}

/// Asks plugins about a container that is being created, and applies what they want to its spec.
///
/// On an error the spec is as it was, and plugins that heard of the container hear that it is gone.
///
/// # Errors
///
/// The pod is not known or not ready, or the record has no spec: nobody is asked. A plugin does not let it, or what plugins want cannot be applied.
pub async fn adjust(
    handle: &Handle,
    pod: &PodRef,
    container: &mut ContainerRecord,
    host: &Host,
    settings: &Settings,
) -> Result<Adjusted, AdjustError> {
    let PodRef::Known(record) = pod else { return Err(AdjustError::UnknownPod { id: pod.id().to_owned() }) };
    if record.status.state != PodState::Ready {
        return Err(AdjustError::PodNotReady { id: record.id.clone() });
    }
    let Some(spec) = container.spec.as_deref() else {
        return Err(AdjustError::NoSpec { id: container.id.clone() });
    };
    if !handle.is_enabled() {
        let creation = handle.create_container(Pod::default(), Container::default()).await?;
        return Ok(Adjusted { creation, ignored: vec![], overridden: vec![] });
    }
    let mut spec = spec.clone();
    // All that is asked of plugins is in this future: in the caller's own it would be large.
    let asked = handle.create_container(words::pod(pod), words::container(container, settings));
    let creation = Box::pin(asked).await?;
    match apply(&mut spec, &creation, record, host, settings) {
        Ok(generator::Adjusted { ignored, overridden }) => {
            if !ignored.is_empty() {
                warn!(container = container.id, fields = %Fields(ignored.clone()), "plugins want what cannot be done here");
            }
            tell_overridden(&container.id, &overridden);
            remember(container, creation.adjustment(), &ignored);
            container.spec = Some(Arc::new(spec));
            Ok(Adjusted { creation, ignored, overridden })
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

/// Tells plugins that a container has ended by itself, as its record says; nobody waits for them, and nothing fails.
///
/// ```
/// use cri_domain::hooks::exited;
/// use cri_domain::records::{ContainerRecord, PodRef};
/// use cri_domain::words::Settings;
/// use nri_api::Handle;
///
/// /// What a server runs when the process of a container is collected.
/// fn on_exit(handle: Handle, pod: PodRef, container: ContainerRecord) -> impl FnOnce() {
///     move || exited(&handle, &pod, &container, &Settings::default())
/// }
/// ```
pub fn exited(handle: &Handle, pod: &PodRef, container: &ContainerRecord, settings: &Settings) {
    if handle.is_enabled() {
        handle.container_exited(words::pod(pod), words::container(container, settings));
    }
}

fn apply(
    spec: &mut Value,
    creation: &Creation,
    pod: &PodRecord,
    host: &Host,
    settings: &Settings,
) -> Result<generator::Adjusted, SpecError> {
    let adjustment = creation.adjustment();
    let cgroup = adjustment.linux.as_ref().map(|linux| linux.cgroups_path.as_str()).unwrap_or_default();
    if !(settings.any_cgroup || cgroup.is_empty()) {
        below(&pod.config.cgroup_parent, cgroup).map_err(|source| SpecError::Host {
            field: Field::CgroupsPath,
            key: String::new(),
            source: source.into(),
        })?;
    }
    generator::adjust(spec, adjustment, host)
}

/// What the spec cannot say: of classes and CDI devices it has only what they come to, and of annotations not those that it never had.
fn remember(container: &mut ContainerRecord, adjustment: &Adjustment, ignored: &[Field]) {
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
