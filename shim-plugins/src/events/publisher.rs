//! The service that plugins publish events with, and the task that sends them.

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

/// The slot of the [`Publisher`], which every shim has.
pub const PUBLISHER: Slot<Publisher> = Slot::new("io.containerd.event.v1", "publisher");

/// The limit of queued events, in bytes.
pub(super) const MAX_BYTES: usize = 4 << 20;

/// The timeout of connecting to containerd, and of sending one event.
const FORWARD_LIMIT: Duration = Duration::from_secs(5);

/// The pause after a failure. It doubles with each failure, up to the limit.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How often containerd may reject an event before the event is dropped. A containerd that is not
/// reachable does not reject.
const MAX_REJECTIONS: u32 = 5;

/// Publishes events to containerd.
///
/// Events are sent one after the other, in the order in which they were published, so that the
/// events of one container stay in order. While containerd is not reachable, events wait in a queue
/// of limited size. An event that does not fit is refused, counted and logged.
pub struct Publisher {
    queue: Arc<EventQueue>,
    namespace: String,
    clock: Clock,
}

/// A handle to the task that sends the events of a [`Publisher`].
pub(crate) struct EventSender {
    queue: Arc<EventQueue>,
    task: JoinHandle<()>,
}

/// Returns the address in the form that the ttrpc client expects.
fn address(ttrpc_address: &str) -> String {
    if ttrpc_address.contains("://") { ttrpc_address.to_owned() } else { format!("unix://{ttrpc_address}") }
}

impl Publisher {
    /// Creates a publisher for the containerd at an address. It connects when there is an event.
    pub(crate) fn start(ttrpc_address: &str, namespace: &str, clock: Clock) -> (Self, EventSender) {
        let queue = Arc::new(EventQueue::new(MAX_BYTES));
        let sending = SendTask { queue: Arc::clone(&queue), address: address(ttrpc_address), client: None };
        let task = tokio::spawn(sending.run());
        let publisher = Self { queue: Arc::clone(&queue), namespace: namespace.to_owned(), clock };
        (publisher, EventSender { queue, task })
    }

    /// Queues an event, without waiting for containerd.
    ///
    /// Events are sent in the order of these calls.
    pub fn publish<E: Event>(&self, event: &E) -> Result<(), PublishError> {
        let value = event.write_to_bytes().expect("an event is encoded into memory");
        let mut any = Any::new();
        E::TYPE.clone_into(&mut any.type_url);
        any.value = value;
        self.publish_raw(E::TOPIC, any)
    }

    /// Queues an event whose type is not an [`Event`].
    pub fn publish_raw(&self, topic: &str, event: Any) -> Result<(), PublishError> {
        let mut envelope = Envelope::new();
        envelope.timestamp = Some(Timestamp::from(self.clock.now())).into();
        self.namespace.clone_into(&mut envelope.namespace);
        topic.clone_into(&mut envelope.topic);
        envelope.event = Some(event).into();
        self.queue.push(envelope).inspect_err(|error| warn!(topic, %error, "event lost"))
    }

    /// Returns how many events wait, and how many were lost.
    pub fn counts(&self) -> (usize, u64) {
        self.queue.counts()
    }
}

impl EventSender {
    /// Sends the queued events for at most `limit`, and returns how many events were not sent. The
    /// publisher takes no more events.
    pub(crate) async fn flush(self, limit: Duration) -> usize {
        let Self { queue, mut task } = self;
        queue.close();
        if tokio::time::timeout(limit, &mut task).await.is_err() {
            task.abort();
        }
        queue.counts().0
    }
}

/// The task that sends queued events.
struct SendTask {
    queue: Arc<EventQueue>,
    address: String,
    client: Option<EventsClient>,
}

/// The outcome of one attempt to send an event.
enum SendOutcome {
    Delivered,
    Rejected(ttrpc::Error),
    Unreachable(String),
}

impl SendTask {
    async fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        let mut rejections = 0;
        while let Some(envelope) = self.queue.first().await {
            match self.send(envelope).await {
                SendOutcome::Delivered => {
                    self.queue.pop();
                    (pause, rejections) = (FIRST_PAUSE, 0);
                    continue;
                }
                SendOutcome::Rejected(error) => {
                    rejections += 1;
                    if rejections == MAX_REJECTIONS {
                        warn!(%error, "containerd rejected an event; event lost");
                        self.queue.drop_first();
                        (pause, rejections) = (FIRST_PAUSE, 0);
                        continue;
                    }
                }
                SendOutcome::Unreachable(error) => debug!(error, "could not send an event to containerd"),
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
                Err(_) => return SendOutcome::Unreachable("timed out while connecting".to_owned()),
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

/// Returns whether a status means that containerd rejected the event, not that it is unavailable.
fn is_rejection(code: Code) -> bool {
    code != Code::DEADLINE_EXCEEDED && code != Code::UNAVAILABLE
}
