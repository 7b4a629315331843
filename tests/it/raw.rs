//! A plugin at the level of the wire, over a connection in memory, so that time can be paused.

use nri_adaptation::Adaptation;
use nri_proto::{Event, EventMask, api};
use nri_tests::wire::{RUNTIME, encode, frame, message, request, response};
use protobuf::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};

pub(crate) struct Raw {
    stream: DuplexStream,
    /// The received bytes of each channel that are not a complete message yet.
    received: [Vec<u8>; 2],
    next: u32,
}

impl Raw {
    /// Connects without sending anything.
    pub(crate) fn connect(nri: &Adaptation) -> Self {
        let (raw, reader, writer) = Self::pair();
        nri.attach(reader, writer);
        raw
    }

    /// Creates a connection, and returns both ends.
    pub(crate) fn pair() -> (Self, ReadHalf<DuplexStream>, WriteHalf<DuplexStream>) {
        let (here, stream) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(here);
        (Self { stream, received: [Vec::new(), Vec::new()], next: 1 }, reader, writer)
    }

    /// Connects, registers and is synchronized with an empty snapshot. The plugin subscribes to
    /// everything but validation.
    pub(crate) async fn join(nri: &Adaptation, id: &str) -> Self {
        let mut raw = Self::connect(nri);
        raw.register(id).await;
        let mut events = EventMask::ALL;
        events.remove(Event::ValidateContainerAdjustment);
        let (configure, _) = raw.asked().await;
        let events = events.to_wire().unwrap();
        raw.answer(configure, &api::ConfigureResponse { events, ..Default::default() }).await;
        let (synchronize, _) = raw.asked().await;
        raw.answer(synchronize, &api::SynchronizeResponse::new()).await;
        while nri.plugins().iter().all(|plugin| plugin.id.as_str() != id) {
            tokio::task::yield_now().await;
        }
        raw
    }

    pub(crate) async fn register(&mut self, id: &str) {
        self.call("RegisterPlugin", &registration(id)).await;
    }

    /// Calls the runtime without waiting for the answer.
    pub(crate) async fn call(&mut self, method: &str, message: &impl Message) {
        let wire = request(self.next, RUNTIME, method, encode(message));
        self.next += 2;
        self.send(&wire).await;
    }

    pub(crate) async fn send(&mut self, wire: &[u8]) {
        self.stream.write_all(wire).await.unwrap();
    }

    /// Returns the next request of the runtime, with its id.
    pub(crate) async fn asked(&mut self) -> (u32, ttrpc::Request) {
        self.asked_or_closed().await.expect("nothing is asked any more")
    }

    /// Returns the next request of the runtime, with its id, or `None` if the runtime has closed
    /// the connection.
    pub(crate) async fn asked_or_closed(&mut self) -> Option<(u32, ttrpc::Request)> {
        let (id, payload) = self.message(1).await?;
        Some((id, ttrpc::Request::parse_from_bytes(&payload).unwrap()))
    }

    pub(crate) async fn answer(&mut self, id: u32, answer: &impl Message) {
        self.send(&response(id, encode(answer))).await;
    }

    pub(crate) async fn refuse(&mut self, id: u32, code: ttrpc::Code, text: &str) {
        let status = Some(ttrpc::get_status(code, text)).into();
        let refusal = ttrpc::Response { status, ..Default::default() };
        self.send(&frame(1, &message(2, id, &encode(&refusal)))).await;
    }

    /// Returns the next answer of the runtime.
    pub(crate) async fn answered(&mut self) -> ttrpc::Response {
        let (_, payload) = self.message(2).await.expect("nothing is answered any more");
        ttrpc::Response::parse_from_bytes(&payload).unwrap()
    }

    /// Waits until the runtime has closed the connection.
    pub(crate) async fn closed(mut self) {
        // A connection that ends within a frame counts as closed, too.
        let _ = self.stream.read_to_end(&mut Vec::new()).await;
    }

    async fn message(&mut self, channel: usize) -> Option<(u32, Vec<u8>)> {
        loop {
            let received = &mut self.received[channel - 1];
            if let Some(&[a, b, c, d, e, f, g, h, ..]) = received.first_chunk::<10>() {
                let end = 10 + u32::from_be_bytes([a, b, c, d]) as usize;
                if received.len() >= end {
                    let payload = received.drain(..end).skip(10).collect();
                    return Some((u32::from_be_bytes([e, f, g, h]), payload));
                }
            }
            let (channel, length) = (self.stream.read_u32().await.ok()?, self.stream.read_u32().await.ok()?);
            let mut payload = vec![0; length as usize];
            self.stream.read_exact(&mut payload).await.ok()?;
            self.received[channel as usize - 1].extend(payload);
        }
    }
}

pub(crate) fn registration(id: &str) -> api::RegisterPluginRequest {
    let (index, name) = id.split_once('-').unwrap();
    api::RegisterPluginRequest { plugin_idx: index.to_owned(), plugin_name: name.to_owned(), ..Default::default() }
}
