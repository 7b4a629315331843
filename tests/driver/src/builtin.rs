//! Plugins in this process that answer like the external plugins of the benchmark, with prepared
//! replies.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nri_adaptation::Plugin;
use nri_adaptation::plugin::{Introduction, PluginError, Reply, Subscription};
use nri_adaptation::request::Request;
use nri_proto::event::WireEvents;
use nri_proto::{CreateReply, Event, FailurePolicy, Resources, StopReply, Update, UpdateReply};

use crate::payload::{MODE, Payload, other_container};

/// A plugin that adjusts containers if an annotation of the pod asks for it.
pub(crate) struct Builtin {
    created: CreateReply,
    stopped: StopReply,
    resources: Resources,
}

impl Builtin {
    /// Creates the plugin with this number.
    pub(crate) fn new(payload: &Payload, number: usize) -> anyhow::Result<Self> {
        let created = payload.adjustment(number)?;
        let linux = created.adjustment.as_ref().and_then(|adjustment| adjustment.linux.as_ref());
        let resources = linux.and_then(|linux| linux.resources.clone()).unwrap_or_default();
        let updates = vec![Update::new(other_container(), resources.clone())];
        Ok(Self { created, stopped: StopReply { updates, ..StopReply::default() }, resources })
    }
}

#[async_trait]
impl Plugin for Builtin {
    async fn configure(&self, _: Introduction) -> Result<Subscription, PluginError> {
        let events = [Event::CreateContainer, Event::UpdateContainer, Event::StopContainer, Event::StartContainer];
        let events = WireEvents { known: events.into_iter().collect(), unknown: 0 };
        Ok(Subscription { events, declared: FailurePolicy::default() })
    }

    async fn ask(self: Arc<Self>, request: Arc<Request>, _: Duration) -> Result<Reply, PluginError> {
        let adjusts = request.pod().annotations.get(MODE).is_some_and(|mode| mode == "adjust");
        let event = request.event();
        Ok(if event == Event::CreateContainer {
            Reply::Create(Box::new(if adjusts { self.created.clone() } else { CreateReply::default() }))
        } else if event == Event::UpdateContainer {
            let container = request.container().filter(|_| adjusts);
            let updates = container.map(|container| Update::new(&*container.id, self.resources.clone()));
            Reply::Update(UpdateReply { updates: updates.into_iter().collect(), ..UpdateReply::default() })
        } else if event == Event::StopContainer {
            Reply::Stop(if adjusts { self.stopped.clone() } else { StopReply::default() })
        } else {
            Reply::Heard
        })
    }
}
