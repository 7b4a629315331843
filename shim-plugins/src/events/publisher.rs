//! Events on their way to containerd.
//!
//! They leave one after the other, in the order in which they were published, so that those about one container stay in
//! order. While containerd is away they wait, and are sent when it is back. What waits is bounded; what exceeds the bound
//! is refused, counted and logged.

use std::sync::Arc;
use std::time::Duration;

use containerd_shim_protos::api::ForwardRequest;
use containerd_shim_protos::shim::event::Envelope;
use containerd_shim_protos::shim_async::EventsClient;
use protobuf::well_known_types::any::Any;
use protobuf::well_known_types::timestamp::Timestamp;
use tokio::task::JoinHandle;
use tracing::{debug, warn};
use ttrpc::Code;
use ttrpc::asynchronous::transport::Socket;

use super::event::Event;
use super::event_queue::{EventQueue, PublishError};
use crate::graph::Slot;
use crate::process::Clock;

/// The slot of the [`Publisher`]. The runner fills it.
pub const PUBLISHER: Slot<Publisher> = Slot::new("io.containerd.event.v1", "publisher");

/// How much may wait while containerd is away, in bytes.
pub(super) const MAX_BYTES: usize = 4 << 20;

/// How long one event may take.
const FORWARD_LIMIT: Duration = Duration::from_secs(5);

/// How long to wait after a failure: doubled each time, up to the limit.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How often containerd may refuse an event before it is given up. While containerd is away nothing is refused.
const MAX_REFUSALS: u32 = 5;

/// Publishes events to containerd.
pub struct Publisher {
    queue: Arc<EventQueue>,
    namespace: String,
    clock: Clock,
}

/// The task that sends what a publisher queues.
pub(crate) struct EventSender {
    queue: Arc<EventQueue>,
    task: JoinHandle<()>,
}

/// Where events go.
fn address(ttrpc_address: &str) -> String {
    if ttrpc_address.contains("://") { ttrpc_address.to_owned() } else { format!("unix://{ttrpc_address}") }
}

impl Publisher {
    /// Publishes to the containerd at an address, for a namespace. Nothing is connected before there is an event.
    pub(crate) fn start(ttrpc_address: &str, namespace: &str, clock: Clock) -> (Self, EventSender) {
        let queue = Arc::new(EventQueue::new(MAX_BYTES));
        let sending = SendTask { queue: Arc::clone(&queue), address: address(ttrpc_address), client: None };
        let task = tokio::spawn(sending.run());
        let publisher = Self { queue: Arc::clone(&queue), namespace: namespace.to_owned(), clock };
        (publisher, EventSender { queue, task })
    }

    /// Queues an event. It does not wait for containerd.
    ///
    /// Those who publish one after the other are heard in that order.
    pub fn publish<E: Event>(&self, event: &E) -> Result<(), PublishError> {
        let value = event.write_to_bytes().expect("an event is encoded into memory");
        let mut any = Any::new();
        E::TYPE.clone_into(&mut any.type_url);
        any.value = value;
        self.publish_raw(E::TOPIC, any)
    }

    /// Queues an event of another type than those of a task.
    pub fn publish_raw(&self, topic: &str, event: Any) -> Result<(), PublishError> {
        let mut envelope = Envelope::new();
        envelope.timestamp = Some(Timestamp::from(self.clock.now())).into();
        self.namespace.clone_into(&mut envelope.namespace);
        topic.clone_into(&mut envelope.topic);
        envelope.event = Some(event).into();
        self.queue.push(envelope).inspect_err(|error| warn!(topic, %error, "an event is lost"))
    }

    /// How many events wait, and how many were lost.
    pub fn counts(&self) -> (usize, u64) {
        self.queue.counts()
    }
}

impl EventSender {
    /// Sends what waits, for at most so long, and says how many events were left.
    pub(crate) async fn flush(self, limit: Duration) -> usize {
        let Self { queue, mut task } = self;
        queue.close();
        if tokio::time::timeout(limit, &mut task).await.is_err() {
            task.abort();
        }
        queue.counts().0
    }
}

struct SendTask {
    queue: Arc<EventQueue>,
    address: String,
    client: Option<EventsClient>,
}

/// What came of an attempt.
enum SendOutcome {
    Delivered,
    Rejected(ttrpc::Error),
    Unreachable(String),
}

impl SendTask {
    async fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        let mut refusals = 0;
        while let Some(envelope) = self.queue.first().await {
            match self.send(envelope).await {
                SendOutcome::Delivered => {
                    self.queue.pop();
                    (pause, refusals) = (FIRST_PAUSE, 0);
                    continue;
                }
                SendOutcome::Rejected(error) => {
                    refusals += 1;
                    if refusals == MAX_REFUSALS {
                        warn!(%error, "containerd does not take an event, it is lost");
                        self.queue.lose();
                        (pause, refusals) = (FIRST_PAUSE, 0);
                        continue;
                    }
                }
                SendOutcome::Unreachable(error) => debug!(error, "containerd does not hear"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn send(&mut self, envelope: Envelope) -> SendOutcome {
        let client = match self.client.take() {
            Some(client) => client,
            None => match tokio::time::timeout(FORWARD_LIMIT, Socket::connect(&self.address)).await {
                Ok(Ok(socket)) => EventsClient::new(ttrpc::asynchronous::Client::new(socket)),
                Ok(Err(error)) => return SendOutcome::Unreachable(error.to_string()),
                Err(_) => return SendOutcome::Unreachable("it does not accept".to_owned()),
            },
        };
        let mut request = ForwardRequest::new();
        request.envelope = Some(envelope).into();
        match client.forward(ttrpc::context::with_duration(FORWARD_LIMIT), &request).await {
            Ok(_) => {
                self.client = Some(client);
                SendOutcome::Delivered
            }
            Err(ttrpc::Error::RpcStatus(status)) if is_rejection(status.code()) => {
                self.client = Some(client);
                SendOutcome::Rejected(ttrpc::Error::RpcStatus(status))
            }
            Err(error) => SendOutcome::Unreachable(error.to_string()),
        }
    }
}

/// Whether containerd said no, or did not say anything.
fn is_rejection(code: Code) -> bool {
    code != Code::DEADLINE_EXCEEDED && code != Code::UNAVAILABLE
}
