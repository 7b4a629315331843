//! A plugin that takes the same time for each request, and is unwell at times.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nri_proto::event::WireEvents;
use nri_proto::mux::Closed;
use nri_proto::{FailurePolicy, Update};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use ttrpc::Code;

use super::waits::Delivery;
use crate::api::plugin::{Introduction, Plugin, PluginError, Reply, Subscription};
use crate::api::request::Request;
use crate::api::snapshot::Snapshot;
use crate::tests::fake::{LIFE, reply};

/// The mood of a [`Steady`] plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// The plugin answers each request after its time.
    Well,
    /// The plugin answers nothing until its mood changes.
    Hangs,
    /// The plugin answers each request after its time with `DEADLINE_EXCEEDED`.
    GivesUp,
    /// The plugin answers every third request after [`LATE`], and the others after its time.
    Stumbles,
}

/// How long a plugin that stumbles takes at times: a little longer than the request timeout.
pub(super) const LATE: Duration = Duration::from_millis(2100);

/// A plugin that takes the same time for each request, and records the time of each request.
pub(super) struct Steady {
    /// How long one request takes.
    service: Duration,
    /// How long the plugin takes to be synchronized.
    synchronizes: Duration,
    mood: watch::Sender<Mood>,
    /// When the plugin last received a snapshot.
    shown: Mutex<Option<Instant>>,
    deliveries: Mutex<Vec<Delivery>>,
}

impl Steady {
    pub(super) fn new(service: Duration, synchronizes: Duration) -> Arc<Self> {
        let mood = watch::Sender::new(Mood::Well);
        Arc::new(Self { service, synchronizes, mood, shown: Mutex::default(), deliveries: Mutex::default() })
    }

    /// Changes the mood of the plugin, also for the requests in flight.
    pub(super) fn is(&self, mood: Mood) {
        self.mood.send_replace(mood);
    }

    /// Returns when the plugin last received a snapshot.
    pub(super) fn shown(&self) -> Option<Instant> {
        *self.shown.lock().unwrap()
    }

    /// Returns the requests since the last snapshot, in order.
    pub(super) fn deliveries(&self) -> Vec<Delivery> {
        self.deliveries.lock().unwrap().clone()
    }
}

#[async_trait]
impl Plugin for Steady {
    async fn configure(&self, _: Introduction) -> Result<Subscription, PluginError> {
        Ok(Subscription { events: WireEvents { known: LIFE, unknown: 0 }, declared: FailurePolicy::default() })
    }

    async fn synchronize(&self, _: Snapshot) -> Result<Vec<Update>, PluginError> {
        *self.shown.lock().unwrap() = Some(Instant::now());
        // If a join starts over, the new snapshot shows everything that was delivered before.
        self.deliveries.lock().unwrap().clear();
        sleep(self.synchronizes).await;
        Ok(Vec::new())
    }

    async fn ask(self: Arc<Self>, request: Arc<Request>, _: Duration) -> Result<Reply, PluginError> {
        let about = request.container().map_or(&request.pod().id, |container| &container.id);
        let what = format!("{} {about}", request.event().rpc());
        let begun = Instant::now();
        let place = {
            let mut deliveries = self.deliveries.lock().unwrap();
            deliveries.push(Delivery { what, begun, ended: None, is_answer: false });
            deliveries.len() - 1
        };
        let mut mood = self.mood.subscribe();
        let mood = *mood.wait_for(|mood| *mood != Mood::Hangs).await.expect("the sender is ours");
        let takes = if mood == Mood::Stumbles && place % 3 == 2 { LATE } else { self.service };
        if !takes.is_zero() {
            sleep(takes).await;
        }
        if let Some(delivery) = self.deliveries.lock().unwrap().get_mut(place) {
            (delivery.ended, delivery.is_answer) = (Some(Instant::now()), mood != Mood::GivesUp);
        }
        match mood {
            Mood::GivesUp => Err(PluginError::Refused { code: Code::DEADLINE_EXCEEDED, message: "late".to_owned() }),
            Mood::Well | Mood::Hangs | Mood::Stumbles => Ok(reply(request.event())),
        }
    }

    async fn gone(&self) -> Closed {
        std::future::pending().await
    }
}
