//! The calls of a runtime for the pods and containers of one namespace.
//!
//! - this file: [`Handle`], with one method for each moment in the life of a pod or container.
//! - `podless`: [`PodlessHandle`](podless::PodlessHandle), for a runtime without pods.
//! - `notify_done`: methods of [`Handle`] that report completed actions on their own.

mod notify_done;
pub(crate) mod podless;
#[cfg(test)]
mod tests;

use std::future::ready;
use std::sync::Arc;

use futures_util::future::Either;
use nri_proto::{Container, Pod, Resources};
use tokio::time::Instant;

use crate::client::NamespaceClient;
use crate::client::create::{Creation, PodRun};
use crate::client::start::Start;
use crate::client::update::{ContainerUpdate, PodUpdate};
use crate::error::Error;
use crate::instance::startup::EarlyExit;
use crate::lifecycle::state::State;
use crate::lifecycle::steps::EndGoal;

/// The entry point for one namespace of the runtime. Clones share the namespace.
///
/// Before the runtime acts, it asks plugins. It gets a value that stands for the action: a
/// [`PodRun`], a [`Creation`], a [`Start`], a [`PodUpdate`] or a [`ContainerUpdate`]. After the
/// action the runtime reports success on that value. If the runtime drops the value, or the future
/// that returns it, the action has failed: plugins that have heard of the action are notified.
///
/// Ends are reported with [`stop_container`](Self::stop_container),
/// [`remove_container`](Self::remove_container), [`stop_pod`](Self::stop_pod) and
/// [`remove_pod`](Self::remove_pod). These calls proceed to their end, also if the caller drops the
/// future. They may be repeated: plugins hear of each end at most once, and in order.
///
/// Log the errors of ends and of completed actions. The runtime need not handle them otherwise.
#[derive(Clone)]
pub struct Handle {
    /// `None` if NRI is disabled.
    client: Option<NamespaceClient>,
}

impl Handle {
    pub(crate) fn new(client: Option<NamespaceClient>) -> Self {
        Self { client }
    }

    /// Returns a handle whose calls have a deadline.
    ///
    /// A plugin that has not answered at the deadline is not blamed for it. An end that is reported
    /// proceeds after the deadline, and only the caller stops waiting.
    #[must_use]
    pub fn until(&self, deadline: Instant) -> Self {
        let client = self.client.as_ref();
        Self { client: client.map(|client| NamespaceClient { deadline: Some(deadline), ..client.clone() }) }
    }

    /// Returns whether there may be plugins. If NRI is [disabled](crate::Config::disable), each
    /// call returns at once, and its arguments are not used: a caller need not prepare them.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.client.is_some()
    }

    /// Returns the state of a pod as plugins know it, or `None` if plugins do not know the pod.
    #[must_use]
    pub fn pod_state(&self, id: &str) -> Option<State> {
        self.client.as_ref()?.namespace.pods.state(id)
    }

    /// Returns the state of a container as plugins know it, or `None` if plugins do not know the
    /// container.
    #[must_use]
    pub fn container_state(&self, id: &str) -> Option<State> {
        self.client.as_ref()?.namespace.containers.state(id)
    }

    /// Waits until plugins were told of a container's end: of its Stop, and of its Remove if the
    /// runtime has requested that.
    ///
    /// Use this for ends that tasks report, such as [exits](Self::container_exited) and failed
    /// starts, and for ends whose caller has left. Until this returns, the domain must keep the
    /// container: NRI asks the domain what to tell plugins.
    ///
    /// Returns at once if plugins do not know the container, or were told of its end already. If
    /// the container is running, this waits for its end. Returns also when NRI has stopped, and if
    /// NRI is disabled.
    pub async fn container_ended(&self, id: &str) {
        if let Some(client) = &self.client {
            let _ = client.instance.is_over.run_until_cancelled(client.container_ended(id)).await;
        }
    }

    /// Waits until plugins were told of a pod's end and of the ends of its containers, like
    /// [`container_ended`](Self::container_ended).
    pub async fn pod_ended(&self, id: &str) {
        if let Some(client) = &self.client {
            let _ = client.instance.is_over.run_until_cancelled(client.pod_ended(id)).await;
        }
    }

    /// Returns the client, or `None` if NRI is disabled. Fails unless requests are allowed.
    fn client(&self) -> Result<Option<&NamespaceClient>, Error> {
        let Some(client) = &self.client else { return Ok(None) };
        client.instance.startup.check()?;
        Ok(Some(client))
    }

    /// Asks plugins about a pod that exists and is about to run.
    ///
    /// # Errors
    ///
    /// A plugin rejects the pod, or there is a pod of this id.
    // Not async, and neither are the other requests that plugins approve: their futures would
    // contain the objects several times.
    pub fn run_pod(&self, pod: Pod) -> impl Future<Output = Result<PodRun, Error>> + Send + use<> {
        match &self.client {
            Some(client) => Either::Left(client.run_request(Box::pin(client.clone().run_pod(Arc::new(pod))))),
            None => Either::Right(ready(Ok(PodRun::unasked()))),
        }
    }

    /// Asks plugins about new limits of a pod: of the pod's own overhead, and of all its containers
    /// together.
    ///
    /// # Errors
    ///
    /// A plugin rejects the update.
    pub fn update_pod(
        &self,
        pod: Pod,
        overhead: Option<Resources>,
        resources: Option<Resources>,
    ) -> impl Future<Output = Result<PodUpdate, Error>> + Send + use<> {
        match &self.client {
            Some(client) => Either::Left(client.run_request(Box::pin(client.clone().update_pod(
                Arc::new(pod),
                overhead,
                resources,
            )))),
            None => Either::Right(ready(Ok(PodUpdate::unasked()))),
        }
    }

    /// Reports that a pod has stopped, and with it all its containers. Plugins are first notified
    /// of the containers whose end they do not know.
    ///
    /// # Errors
    ///
    /// A plugin failed to handle the event. All other plugins were notified.
    pub async fn stop_pod(&self, pod: Pod) -> Result<(), Error> {
        match self.client()? {
            Some(client) => client.report_pod_end(pod, EndGoal::Stopped).await,
            None => Ok(()),
        }
    }

    /// Reports that a pod and its containers are being removed. Call this before the domain forgets
    /// the pod.
    ///
    /// # Errors
    ///
    /// A plugin failed to handle the event. All other plugins were notified.
    pub async fn remove_pod(&self, pod: Pod) -> Result<(), Error> {
        match self.client()? {
            Some(client) => client.report_pod_end(pod, EndGoal::Removed).await,
            None => Ok(()),
        }
    }

    /// Asks plugins about a container to be created in a pod. The returned value contains the
    /// changes that plugins want in the container.
    ///
    /// Plugins may also want updates of other containers. Their [`Domain`](crate::Domain)s apply
    /// these updates before this returns. A failed update does not fail the create; the
    /// [ledger](crate::Nri::ledger) records it. Containers that plugins want evicted are stopped
    /// afterwards, in a task.
    ///
    /// # Errors
    ///
    /// A plugin rejects the container, plugins want conflicting changes, or there is a container of
    /// this id.
    pub fn create_container(
        &self,
        pod: Pod,
        container: Container,
    ) -> impl Future<Output = Result<Creation, Error>> + Send + use<> {
        match &self.client {
            Some(client) => {
                Either::Left(client.run_request(Box::pin(client.clone().create(Arc::new(pod), container, false))))
            }
            None => Either::Right(ready(Ok(Creation::unasked(container)))),
        }
    }

    /// Asks plugins about a container that is about to be started or restarted.
    ///
    /// The start begins a run, unless plugins know that the container is running. An end that is
    /// reported from now on belongs to that run. Report the exit of the previous run before this
    /// call.
    ///
    /// # Errors
    ///
    /// A plugin rejects the start. Then the container has stopped, and plugins that do not know
    /// that are notified. Or the container is being created or removed.
    pub fn start_container(
        &self,
        pod: Pod,
        container: Container,
    ) -> impl Future<Output = Result<Start, Error>> + Send + use<> {
        match &self.client {
            Some(client) => Either::Left(client.run_request(Box::pin(client.clone().start(Arc::new(pod), container)))),
            None => Either::Right(ready(Ok(Start::unasked()))),
        }
    }

    /// Asks plugins about new limits of a container. Plugins may change the limits:
    /// [`ContainerUpdate::resources`] returns the result.
    ///
    /// Updates and evictions of other containers are applied as in
    /// [`create_container`](Self::create_container).
    ///
    /// # Errors
    ///
    /// A plugin rejects the update, or plugins want conflicting changes.
    pub fn update_container(
        &self,
        pod: Pod,
        container: Container,
        resources: Option<Resources>,
    ) -> impl Future<Output = Result<ContainerUpdate, Error>> + Send + use<> {
        match &self.client {
            Some(client) => {
                Either::Left(client.run_request(Box::pin(client.clone().update(Arc::new(pod), container, resources))))
            }
            None => Either::Right(ready(Ok(ContainerUpdate::unasked(resources)))),
        }
    }

    /// Reports that a container has stopped. `container` contains the exit code and its details,
    /// unless its [exit](Self::container_exited) was reported before.
    ///
    /// # Errors
    ///
    /// A plugin failed to handle the event. All other plugins were notified.
    pub async fn stop_container(&self, pod: Pod, container: Container) -> Result<(), Error> {
        match self.client()? {
            Some(client) => client.report_container_end(pod, container, EndGoal::Stopped).await,
            None => Ok(()),
        }
    }

    /// Reports that a container is being removed. If its Stop was not reported, plugins are first
    /// notified that the container has stopped. Call this before the domain forgets the container.
    ///
    /// # Errors
    ///
    /// A plugin failed to handle the event. All other plugins were notified.
    pub async fn remove_container(&self, pod: Pod, container: Container) -> Result<(), Error> {
        match self.client()? {
            Some(client) => client.report_container_end(pod, container, EndGoal::Removed).await,
            None => Ok(()),
        }
    }

    /// Reports that a container has exited. `container` says how: `exit_code`, `finished_at`,
    /// `status_reason`, `status_message`. A task sends StopContainer to plugins; this never waits.
    ///
    /// An exit that is reported before [`Nri::start`](crate::Nri::start) is kept until then. An
    /// exit that is reported after [`Nri::stop`](crate::Nri::stop) is only
    /// [counted](crate::Nri::lost_exits).
    pub fn container_exited(&self, pod: Pod, container: Container) {
        let Some(client) = &self.client else { return };
        let (pod, startup) = (Arc::new(pod), &client.instance.startup);
        if startup.check().is_ok() {
            return client.report_exit(pod, container);
        }
        let exit = EarlyExit { namespace: Arc::clone(&client.namespace), pod, container };
        if let Some(EarlyExit { namespace: _, pod, container }) = startup.keep_exit(exit) {
            client.report_exit(pod, container);
        }
    }
}
