//! The types that the author of a plugin implements and uses.
//!
//! - `plugin.rs` is the trait of a plugin: its subscription, and one handler for each event.
//! - `context.rs` is what each handler gets: the runtime, the deadline and the subscribed events.
//! - `introduction.rs` is what the runtime reports about itself, and which events it supports.
//! - `refusal.rs` is the negative reply of a handler.

pub(crate) mod context;
pub(crate) mod introduction;
pub(crate) mod refusal;

use async_trait::async_trait;
use nri_proto::{
    Container, CreateReply, EventMask, FailurePolicy, Pod, Proposal, Resources, StopReply, Update, UpdateReply, Verdict,
};

pub use self::context::Context;
pub use self::introduction::Introduction;
pub use self::refusal::{Refusal, chain};

/// A plugin: the events it subscribes to, and one handler for each event.
///
/// Only [`events`](Plugin::events) is required. Each handler has a default that changes nothing. If
/// the plugin subscribes to an event without overriding its handler, the SDK logs a warning; in
/// `testing`, the event fails instead.
///
/// A runtime usually sends one request at a time. If a reply is late, the runtime may send the next
/// request while the previous handler still runs. If a handler panics, the request is refused.
// The trait has one method for each request of the protocol.
#[async_trait]
pub trait Plugin: Send + Sync + 'static {
    /// Returns the events that the plugin subscribes to.
    ///
    /// An empty mask is an error: in the protocol, an empty subscription means all events.
    fn events(&self) -> EventMask;

    /// Returns what the plugin asks runtimes to do with requests that the plugin does not answer.
    fn failure_policy(&self) -> FailurePolicy {
        FailurePolicy::default()
    }

    /// Handles the Configure request: the runtime introduces itself and passes on the configuration
    /// of the plugin. Returns the events that the plugin subscribes to.
    ///
    /// A refusal ends the plugin, without another attempt to connect: a retry would get the same
    /// configuration.
    async fn configure(&self, introduction: Introduction) -> Result<EventMask, Refusal> {
        drop(introduction);
        Ok(self.events())
    }

    /// Handles the pods and containers that exist when the plugin connects. Returns updates of
    /// containers.
    ///
    /// The runtime synchronizes the plugin once per connection, before the first event. Runtimes on
    /// Go's NRI before 0.7 do not synchronize the plugins that they launch.
    async fn synchronize(
        &self,
        context: &Context,
        pods: Vec<Pod>,
        containers: Vec<Container>,
    ) -> Result<Vec<Update>, Refusal> {
        let _ = (context, pods, containers);
        Ok(Vec::new())
    }

    /// Called when the runtime is shutting down.
    async fn shutdown(&self) {}

    /// Called when a pod was created and its network is set up.
    async fn run_pod_sandbox(&self, context: &Context, pod: Pod) -> Result<(), Refusal> {
        drop(pod);
        context.unhandled()
    }

    /// Called when the resources of a pod are about to be updated. `overhead` is what the pod
    /// itself needs; `resources` is the sum for its containers.
    ///
    /// `overhead` is what the pod itself needs; `resources` is the sum for its containers.
    async fn update_pod_sandbox(
        &self,
        context: &Context,
        pod: Pod,
        overhead: Option<Resources>,
        resources: Option<Resources>,
    ) -> Result<(), Refusal> {
        let _ = (pod, overhead, resources);
        context.unhandled()
    }

    /// Called when the resources of a pod were updated.
    async fn post_update_pod_sandbox(&self, context: &Context, pod: Pod) -> Result<(), Refusal> {
        drop(pod);
        context.unhandled()
    }

    /// Called when a pod is being stopped.
    async fn stop_pod_sandbox(&self, context: &Context, pod: Pod) -> Result<(), Refusal> {
        drop(pod);
        context.unhandled()
    }

    /// Called when a pod is being removed.
    async fn remove_pod_sandbox(&self, context: &Context, pod: Pod) -> Result<(), Refusal> {
        drop(pod);
        context.unhandled()
    }

    /// Called when a container is about to be created. Returns changes to this container and
    /// updates of others.
    ///
    /// `container` includes the changes of the plugins that ran before this one.
    async fn create_container(
        &self,
        context: &Context,
        pod: Pod,
        container: Container,
    ) -> Result<CreateReply, Refusal> {
        let _ = (pod, container);
        context.unhandled()
    }

    /// Called when a container was created.
    async fn post_create_container(&self, context: &Context, pod: Pod, container: Container) -> Result<(), Refusal> {
        let _ = (pod, container);
        context.unhandled()
    }

    /// Called when a container is about to be started.
    async fn start_container(&self, context: &Context, pod: Pod, container: Container) -> Result<(), Refusal> {
        let _ = (pod, container);
        context.unhandled()
    }

    /// Called when a container was started.
    async fn post_start_container(&self, context: &Context, pod: Pod, container: Container) -> Result<(), Refusal> {
        let _ = (pod, container);
        context.unhandled()
    }

    /// Called when a container is about to be updated with these resources. Returns updates of this
    /// container and of others.
    async fn update_container(
        &self,
        context: &Context,
        pod: Pod,
        container: Container,
        resources: Option<Resources>,
    ) -> Result<UpdateReply, Refusal> {
        let _ = (pod, container, resources);
        context.unhandled()
    }

    /// Called when a container was updated.
    async fn post_update_container(&self, context: &Context, pod: Pod, container: Container) -> Result<(), Refusal> {
        let _ = (pod, container);
        context.unhandled()
    }

    /// Called when a container has stopped. Returns updates of other containers.
    async fn stop_container(&self, context: &Context, pod: Pod, container: Container) -> Result<StopReply, Refusal> {
        let _ = (pod, container);
        context.unhandled()
    }

    /// Called when a container is being removed.
    async fn remove_container(&self, context: &Context, pod: Pod, container: Container) -> Result<(), Refusal> {
        let _ = (pod, container);
        context.unhandled()
    }

    /// Called when all plugins have replied to the creation of a container. Returns whether the
    /// runtime may create the container with the resulting adjustment.
    async fn validate_container_adjustment(&self, context: &Context, proposal: Proposal) -> Result<Verdict, Refusal> {
        drop(proposal);
        context.unhandled()
    }
}
