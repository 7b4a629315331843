//! The requests about events: decoded, passed to the plugin's handler, and answered.

use std::time::Duration;

use bytes::Bytes;
use nri_proto::quote::line;
use nri_proto::{Container, Event, Pod, Proposal, Resources, api};
use tracing::{debug, warn};
use ttrpc::Code;

use super::Service;
use super::status::{parse, refusal_status, status};
use crate::plugin::{Context, Refusal};
use crate::runtime::encode;

/// The maximum number of entries in a request: a pod, a container, and an adjustment.
const MAX_ENTRIES: usize = 64 << 10;

impl Service {
    /// Handles a StateChange request, which older runtimes send for several events.
    pub(super) async fn state_change(&self, request: &Bytes, timeout: Option<Duration>) -> ttrpc::Result<Bytes> {
        let api::StateChangeEvent { event, pod, container, special_fields: _ } = parse(request, MAX_ENTRIES)?;
        let Some(event) = Event::from_number(event.value()).filter(|event| event.is_state_change()) else {
            let text = format!("event {} is not a state change", event.value());
            return Err(status(Code::INVALID_ARGUMENT, text));
        };
        self.handle(event, timeout, async |context| {
            self.notice(event, context, pod_of(pod.into_option()), container_of(container.into_option())).await
        })
        .await
    }

    /// Handles the request of one event.
    pub(super) async fn event(&self, event: Event, request: &Bytes, timeout: Option<Duration>) -> ttrpc::Result<Bytes> {
        match event {
            Event::CreateContainer => {
                let api::CreateContainerRequest { pod, container, special_fields: _ } = parse(request, MAX_ENTRIES)?;
                let (pod, container) = (pod_of(pod.into_option()), container_of(container.into_option()));
                let create = async |context: &Context| {
                    let reply = self.plugin.create_container(context, pod, container).await?;
                    Ok(encode(&api::CreateContainerResponse::from(reply)))
                };
                self.handle(event, timeout, create).await
            }
            Event::UpdateContainer => {
                let api::UpdateContainerRequest { pod, container, linux_resources, special_fields: _ } =
                    parse(request, MAX_ENTRIES)?;
                let (pod, container) = (pod_of(pod.into_option()), container_of(container.into_option()));
                let resources = linux_resources.into_option().map(Resources::from);
                let update = async |context: &Context| {
                    let reply = self.plugin.update_container(context, pod, container, resources).await?;
                    Ok(encode(&api::UpdateContainerResponse::from(reply)))
                };
                self.handle(event, timeout, update).await
            }
            Event::StopContainer => {
                let api::StopContainerRequest { pod, container, special_fields: _ } = parse(request, MAX_ENTRIES)?;
                let (pod, container) = (pod_of(pod.into_option()), container_of(container.into_option()));
                let stop = async |context: &Context| {
                    let reply = self.plugin.stop_container(context, pod, container).await?;
                    Ok(encode(&api::StopContainerResponse::from(reply)))
                };
                self.handle(event, timeout, stop).await
            }
            Event::ValidateContainerAdjustment => {
                let request = parse::<api::ValidateContainerAdjustmentRequest>(request, MAX_ENTRIES)?;
                let proposal = Proposal::from(request);
                let validate = async |context: &Context| {
                    let verdict = self.plugin.validate_container_adjustment(context, proposal).await?;
                    Ok(encode(&api::ValidateContainerAdjustmentResponse::from(verdict)))
                };
                self.handle(event, timeout, validate).await
            }
            Event::UpdatePodSandbox => {
                let api::UpdatePodSandboxRequest { pod, overhead_linux_resources, linux_resources, special_fields: _ } =
                    parse(request, MAX_ENTRIES)?;
                let overhead = overhead_linux_resources.into_option().map(Resources::from);
                let resources = linux_resources.into_option().map(Resources::from);
                let update = async |context: &Context| {
                    let pod = pod_of(pod.into_option());
                    self.plugin.update_pod_sandbox(context, pod, overhead, resources).await?;
                    Ok(Bytes::new())
                };
                self.handle(event, timeout, update).await
            }
            Event::RunPodSandbox
            | Event::PostUpdatePodSandbox
            | Event::StopPodSandbox
            | Event::RemovePodSandbox
            | Event::PostCreateContainer
            | Event::StartContainer
            | Event::PostStartContainer
            | Event::PostUpdateContainer
            | Event::RemoveContainer => {
                // These requests have the same fields; those about pods have no container.
                let api::StartContainerRequest { pod, container, special_fields: _ } = parse(request, MAX_ENTRIES)?;
                self.handle(event, timeout, async |context| {
                    let (pod, container) = (pod_of(pod.into_option()), container_of(container.into_option()));
                    self.notice(event, context, pod, container).await
                })
                .await
            }
        }
    }

    /// Calls the handler of an event that has no reply.
    async fn notice(&self, event: Event, context: &Context, pod: Pod, container: Container) -> Result<Bytes, Refusal> {
        let plugin = &self.plugin;
        match event {
            Event::RunPodSandbox => plugin.run_pod_sandbox(context, pod).await,
            Event::PostUpdatePodSandbox => plugin.post_update_pod_sandbox(context, pod).await,
            Event::StopPodSandbox => plugin.stop_pod_sandbox(context, pod).await,
            Event::RemovePodSandbox => plugin.remove_pod_sandbox(context, pod).await,
            Event::PostCreateContainer => plugin.post_create_container(context, pod, container).await,
            Event::StartContainer => plugin.start_container(context, pod, container).await,
            Event::PostStartContainer => plugin.post_start_container(context, pod, container).await,
            Event::PostUpdateContainer => plugin.post_update_container(context, pod, container).await,
            Event::RemoveContainer => plugin.remove_container(context, pod, container).await,
            Event::CreateContainer
            | Event::UpdateContainer
            | Event::StopContainer
            | Event::UpdatePodSandbox
            | Event::ValidateContainerAdjustment => Err(Refusal::new(format_args!("{event} is not a notice"))),
        }
        .map(|()| Bytes::new())
    }

    /// Runs a handler if the plugin is subscribed to the event, and answers for the plugin
    /// otherwise.
    async fn handle(
        &self,
        event: Event,
        timeout: Option<Duration>,
        handler: impl AsyncFnOnce(&Context) -> Result<Bytes, Refusal>,
    ) -> ttrpc::Result<Bytes> {
        let Some(subscribed) = self.events() else {
            return Err(status(Code::FAILED_PRECONDITION, "the plugin is not configured yet"));
        };
        if !subscribed.contains(event) {
            return Ok(Bytes::new());
        }
        debug!(%event, "received a request");
        let context = self.context(timeout);
        let answer = handler(&context).await.map_err(|refusal| {
            warn!(%event, reason = %line(&refusal.to_string()), "the plugin refused the request");
            refusal_status(refusal)
        })?;
        if context.deadline().is_some_and(|deadline| deadline < tokio::time::Instant::now()) {
            warn!(%event, "the handler took longer than the runtime waits; the reply is late");
        }
        if context.has_no_handler() {
            self.report_missing_handler(event)?;
        }
        Ok(answer)
    }

    /// Logs an event without a handler, once per connection. Fails in strict mode.
    fn report_missing_handler(&self, event: Event) -> ttrpc::Result<()> {
        if self.settings.is_strict {
            let text = format!("the plugin subscribes to {event} and has no handler for it");
            return Err(status(Code::UNIMPLEMENTED, text));
        }
        let mut state = self.state();
        if !state.reported.contains(event) {
            state.reported.insert(event);
            drop(state);
            warn!(%event, "the plugin subscribes to an event but has no handler for it");
        }
        Ok(())
    }
}

fn pod_of(message: Option<api::PodSandbox>) -> Pod {
    message.map(Pod::from).unwrap_or_default()
}

fn container_of(message: Option<api::Container>) -> Container {
    message.map(Container::from).unwrap_or_default()
}
