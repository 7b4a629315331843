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

/// A plugin: what it wants to hear of, and what it does then.
///
/// Only [`events`](Plugin::events) must be written. Each handler has a default that changes nothing; one that is subscribed to and
/// not written is told in the log, and is an error in `testing`.
///
/// A runtime asks one thing at a time, as a rule. After an answer that was late it may ask the next while the handler of
/// the last still runs. A handler that panics is an answer that says no.
// One method for each moment that the protocol has.
#[async_trait]
pub trait Plugin: Send + Sync + 'static {
    /// What it wants to hear of. An empty subscription is an error: for the protocol it means everything.
    fn events(&self) -> EventMask;

    /// What it declares about the times when it does not answer.
    fn failure_policy(&self) -> FailurePolicy {
        FailurePolicy::default()
    }

    /// The runtime introduces itself and hands over the configuration. Returns what the plugin wants to hear of.
    ///
    /// A refusal ends the plugin: its configuration will not become better by itself.
    async fn configure(&self, introduction: Introduction) -> Result<EventMask, Refusal> {
        drop(introduction);
        Ok(self.events())
    }

    /// Tells what there is: once after each connection, before any event. Returns what is to change in it.
    ///
    /// A plugin that was launched by a runtime on Go's NRI before 0.7 is not told.
    async fn synchronize(
        &self,
        context: &Context,
        pods: Vec<Pod>,
        containers: Vec<Container>,
    ) -> Result<Vec<Update>, Refusal> {
        let _ = (context, pods, containers);
        Ok(Vec::new())
    }

    /// The runtime goes away.
    async fn shutdown(&self) {}

    /// A pod runs: it is there, with its network.
    async fn run_pod_sandbox(&self, context: &Context, pod: Pod) -> Result<(), Refusal> {
        drop(pod);
        context.unhandled()
    }

    /// The resources of a pod are about to change: `overhead` is what the pod itself costs, `resources` what its containers need together.
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

    /// The resources of a pod were changed.
    async fn post_update_pod_sandbox(&self, context: &Context, pod: Pod) -> Result<(), Refusal> {
        drop(pod);
        context.unhandled()
    }

    /// A pod is stopped.
    async fn stop_pod_sandbox(&self, context: &Context, pod: Pod) -> Result<(), Refusal> {
        drop(pod);
        context.unhandled()
    }

    /// A pod is removed.
    async fn remove_pod_sandbox(&self, context: &Context, pod: Pod) -> Result<(), Refusal> {
        drop(pod);
        context.unhandled()
    }

    /// A container is about to be created, as the plugins before this one want it. Returns what is to change in it and
    /// in others.
    async fn create_container(
        &self,
        context: &Context,
        pod: Pod,
        container: Container,
    ) -> Result<CreateReply, Refusal> {
        let _ = (pod, container);
        context.unhandled()
    }

    /// A container was created.
    async fn post_create_container(&self, context: &Context, pod: Pod, container: Container) -> Result<(), Refusal> {
        let _ = (pod, container);
        context.unhandled()
    }

    /// A container is about to be started.
    async fn start_container(&self, context: &Context, pod: Pod, container: Container) -> Result<(), Refusal> {
        let _ = (pod, container);
        context.unhandled()
    }

    /// A container was started.
    async fn post_start_container(&self, context: &Context, pod: Pod, container: Container) -> Result<(), Refusal> {
        let _ = (pod, container);
        context.unhandled()
    }

    /// A container is about to get these limits. Returns what is to change in it and in others.
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

    /// A container was updated.
    async fn post_update_container(&self, context: &Context, pod: Pod, container: Container) -> Result<(), Refusal> {
        let _ = (pod, container);
        context.unhandled()
    }

    /// A container has stopped. Returns what is to change in others.
    async fn stop_container(&self, context: &Context, pod: Pod, container: Container) -> Result<StopReply, Refusal> {
        let _ = (pod, container);
        context.unhandled()
    }

    /// A container is removed.
    async fn remove_container(&self, context: &Context, pod: Pod, container: Container) -> Result<(), Refusal> {
        let _ = (pod, container);
        context.unhandled()
    }

    /// All plugins have said what they want of a new container. May it be created like this?
    async fn validate_container_adjustment(&self, context: &Context, proposal: Proposal) -> Result<Verdict, Refusal> {
        drop(proposal);
        context.unhandled()
    }
}
