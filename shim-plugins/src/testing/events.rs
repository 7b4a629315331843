//! The events service of a fake containerd.

use std::io;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use containerd_shim_protos::api::{Empty, ForwardRequest};
use containerd_shim_protos::shim_async::{Events, create_events};
use parking_lot::Mutex;
use protobuf::Message;
use tokio_util::sync::CancellationToken;
use ttrpc::r#async::{Server, TtrpcContext};

/// An event that a [`FakeContainerd`](super::FakeContainerd) received.
#[derive(Clone, Debug)]
pub struct RecordedEvent {
    /// The topic of the event.
    pub topic: String,
    /// The namespace of the event.
    pub namespace: String,
    /// The name of the event's type.
    pub type_name: String,
    bytes: Vec<u8>,
}

impl RecordedEvent {
    /// Decodes the event.
    pub fn event<E: Message>(&self) -> protobuf::Result<E> {
        E::parse_from_bytes(&self.bytes)
    }
}

/// The events that were received, in order. Clones share them.
#[derive(Clone, Default)]
pub(super) struct EventLog(Arc<Mutex<Vec<RecordedEvent>>>);

impl EventLog {
    pub(super) fn all(&self) -> Vec<RecordedEvent> {
        self.0.lock().clone()
    }
}

#[async_trait]
impl Events for EventLog {
    async fn forward(&self, _: &TtrpcContext, request: ForwardRequest) -> ttrpc::Result<Empty> {
        let envelope = request.envelope.unwrap_or_default();
        let event = envelope.event.unwrap_or_default();
        let seen = RecordedEvent {
            topic: envelope.topic,
            namespace: envelope.namespace,
            type_name: event.type_url,
            bytes: event.value,
        };
        self.0.lock().push(seen);
        Ok(Empty::new())
    }
}

/// An events server on a thread of its own. Dropping it stops the server.
pub(super) struct EventServer {
    over: CancellationToken,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl EventServer {
    pub(super) fn start(path: &Path, record: EventLog) -> io::Result<Self> {
        let over = CancellationToken::new();
        let token = over.clone();
        let address = format!("unix://{}", path.display());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (tell, bound) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                let server = match Server::new().bind(&address) {
                    Ok(server) => server,
                    Err(error) => return drop(tell.send(Err(io::Error::other(error)))),
                };
                let mut server = server.register_service(create_events(Arc::new(record)));
                let _ = tell.send(server.start().await.map_err(io::Error::other));
                token.cancelled().await;
            });
            runtime.shutdown_background();
        });
        bound.recv().map_err(io::Error::other)??;
        Ok(Self { over, thread: Some(thread) })
    }
}

impl Drop for EventServer {
    fn drop(&mut self) {
        self.over.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
