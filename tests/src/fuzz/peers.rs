//! A runtime, against a peer that sends the input from its connection to its end.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::{Adaptation, Config, Notice, Source, UpdatesFailed};
use nri_proto::call::{Client, Method, ServeLimits, serve};
use nri_proto::mux::{ChannelId, Limits, Mux};
use nri_proto::{Container, Eviction, PluginId, Pod, Update, api, service};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use ttrpc::r#async::TtrpcContext;

use super::script::Script;
use super::story;
use crate::wire::{RUNTIME, encode, frame, request, response};

/// How long a plugin may take to answer a request.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The most bytes that the peer sends at once.
const FLOOD: usize = 4 << 20;

/// A peer connects and sends what the input determines; it may answer requests or not. Meanwhile
/// the runtime makes requests, and none takes longer than a silent plugin may cost. Then a
/// well-behaved plugin joins and is asked, and the runtime stops.
pub fn peers(input: &[u8]) {
    let mut script = Script(input);
    let takes_its_time = script.byte() % 4 == 1;
    story(async move {
        let config = Config { socket: None, ..Config::default() };
        let nri = Adaptation::new(config, Arc::new(Node { takes_its_time }));
        let stream = attach(&nri);
        let (hostile, ()) = tokio::join!(Hostile::play(stream, script), requests(&nri));
        let good = Good::join(&nri).await;
        let begun = Instant::now();
        nri.begin(pod("last")).notify(Notice::StopPod).await.expect("nobody refuses an end here");
        assert!(begun.elapsed() <= TIMEOUT, "a request took {:?}", begun.elapsed());
        assert_eq!(*good.heard(), ["last"], "the good plugin was not asked");
        nri.stop().await;
        good.leave().await;
        drop(hostile);
    });
}

/// Attaches a connection to the runtime, and returns the other end.
fn attach(nri: &Adaptation) -> DuplexStream {
    let (here, there) = tokio::io::duplex(4096);
    let (reader, writer) = tokio::io::split(here);
    nri.attach(reader, writer);
    there
}

fn pod(id: &str) -> Pod {
    Pod { id: id.to_owned(), ..Pod::default() }
}

/// Makes requests, whatever the peer does.
async fn requests(nri: &Adaptation) {
    for number in 0..6 {
        let operation = nri.begin(pod(&number.to_string()));
        let container = Container { id: "c".to_owned(), ..Container::default() };
        let begun = Instant::now();
        // The peer may refuse.
        let _ = match number % 4 {
            0 => operation.notify(Notice::RunPod).await,
            1 => operation.create_container(container).await.map(drop),
            2 => operation.stop_container(container).await.map(drop).map_err(|error| error.cause),
            _ => operation.update_container(container, None).await.map(drop),
        };
        // A create has two requests: one for adjustments, and one for the validation of the result.
        let questions = if number % 4 == 1 { 2 } else { 1 };
        assert!(begun.elapsed() <= TIMEOUT * questions, "a request took {:?}", begun.elapsed());
        operation.commit();
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
}

/// A runtime with one container.
struct Node {
    takes_its_time: bool,
}

#[async_trait]
impl Source for Node {
    async fn snapshot(&self) -> Snapshot {
        let container = Container { id: "c".to_owned(), pod_id: "p".to_owned(), ..Container::default() };
        Snapshot { pods: vec![pod("p")], containers: vec![container] }
    }

    async fn apply(&self, _: &PluginId, updates: Vec<Update>, _: Vec<Eviction>) -> Result<Vec<Update>, UpdatesFailed> {
        if self.takes_its_time {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(updates)
    }
}

/// The peer that the input determines.
struct Hostile<'a> {
    script: Script<'a>,
    /// The ids of the requests that the peer has not answered.
    asked: Arc<Mutex<VecDeque<u32>>>,
    /// The id of the peer's next request.
    next: u32,
    last: Vec<u8>,
}

impl<'a> Hostile<'a> {
    /// Plays the script to its end. Returns the connection, which stays open unless the script has
    /// closed it.
    async fn play(stream: DuplexStream, mut script: Script<'a>) -> Option<WriteHalf<DuplexStream>> {
        let reads = script.byte() % 8 != 7;
        let (reader, mut writer) = tokio::io::split(stream);
        let asked = Arc::<Mutex<VecDeque<u32>>>::default();
        let reading = reads.then(|| tokio::spawn(read(reader, Arc::clone(&asked))));
        let mut hostile = Self { script, asked, next: 1, last: Vec::new() };
        while !hostile.script.is_over() {
            let Some(wire) = hostile.next().await else {
                let _ = writer.shutdown().await;
                return None;
            };
            // The peer may have been closed. A peer that does not read might wait here for ever.
            let writing = tokio::time::timeout(Duration::from_secs(20), writer.write_all(&wire));
            if !matches!(writing.await, Ok(Ok(()))) {
                break;
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        if let Some(reading) = reading {
            reading.abort();
        }
        Some(writer)
    }

    /// Returns the next bytes to send, or `None` if the peer leaves.
    async fn next(&mut self) -> Option<Vec<u8>> {
        let (kind, number) = (self.script.byte(), self.script.byte());
        let bytes = self.script.bytes(usize::from(number));
        let wire = match kind % 16 {
            0 => bytes.to_vec(),
            1 => frame(u32::from(kind / 16), bytes),
            2 => self.request("RegisterPlugin", bytes.to_vec()),
            3 | 4 => {
                let id = api::RegisterPluginRequest {
                    plugin_name: "hostile".to_owned(),
                    plugin_idx: format!("{:02}", number % 100),
                    ..Default::default()
                };
                self.request("RegisterPlugin", encode(&id))
            }
            5 => self.request("UpdateContainers", bytes.to_vec()),
            6 => self.request("UpdateContainers", [0x0a, 0].repeat(usize::from(number) * 64)),
            7 => response(u32::from(kind / 16), bytes.to_vec()),
            8 => self.answer(bytes.to_vec()),
            9 => {
                let status = ttrpc::get_status(ttrpc::Code::UNKNOWN, "no");
                let refusal = ttrpc::Response { status: Some(status).into(), ..Default::default() };
                let id = self.asked().pop_front().unwrap_or(1);
                frame(1, &crate::wire::message(2, id, &encode(&refusal)))
            }
            10 => {
                let most = FLOOD / self.last.len().max(1);
                return Some(self.last.repeat(most.min(usize::from(number))));
            }
            11 => {
                tokio::time::sleep(Duration::from_millis(10 * u64::from(number))).await;
                return Some(Vec::new());
            }
            12 if number == 0 => return None,
            _ => self.answer(Vec::new()),
        };
        self.last.clone_from(&wire);
        Some(wire)
    }

    fn request(&mut self, method: &str, payload: Vec<u8>) -> Vec<u8> {
        self.next += 2;
        request(self.next - 2, RUNTIME, method, payload)
    }

    /// Returns an answer to the oldest request.
    fn answer(&self, payload: Vec<u8>) -> Vec<u8> {
        self.asked().pop_front().map(|id| response(id, payload)).unwrap_or_default()
    }

    fn asked(&self) -> std::sync::MutexGuard<'_, VecDeque<u32>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads from the runtime, and records the ids of its requests.
async fn read(mut reader: ReadHalf<DuplexStream>, asked: Arc<Mutex<VecDeque<u32>>>) {
    let mut messages = Vec::new();
    while let (Ok(channel), Ok(length)) = (reader.read_u32().await, reader.read_u32().await) {
        let mut payload = vec![0; length as usize];
        if reader.read_exact(&mut payload).await.is_err() {
            return;
        }
        if channel == ChannelId::PLUGIN_SERVICE.get() {
            messages.extend(payload);
        }
        while let Some(header) = messages.first_chunk::<10>() {
            let [a, b, c, d, e, f, g, h, ..] = *header;
            let length = u32::from_be_bytes([a, b, c, d]) as usize;
            if messages.len() < 10 + length {
                break;
            }
            asked.lock().unwrap_or_else(PoisonError::into_inner).push_back(u32::from_be_bytes([e, f, g, h]));
            messages.drain(..10 + length);
        }
    }
}

/// A well-behaved plugin.
struct Good {
    mux: Mux,
    stops: Arc<Stops>,
    serving: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Stops(Mutex<Vec<String>>);

#[async_trait]
impl service::Plugin for Stops {
    async fn configure(&self, _: &TtrpcContext, _: api::ConfigureRequest) -> ttrpc::Result<api::ConfigureResponse> {
        Ok(api::ConfigureResponse::new())
    }

    async fn synchronize(
        &self,
        _: &TtrpcContext,
        request: api::SynchronizeRequest,
    ) -> ttrpc::Result<api::SynchronizeResponse> {
        Ok(api::SynchronizeResponse { more: request.more, ..Default::default() })
    }

    async fn stop_pod_sandbox(
        &self,
        _: &TtrpcContext,
        request: api::StopPodSandboxRequest,
    ) -> ttrpc::Result<api::StopPodSandboxResponse> {
        let pod = request.pod.into_option().unwrap_or_default();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(pod.id);
        Ok(api::StopPodSandboxResponse::new())
    }
}

impl Good {
    async fn join(nri: &Adaptation) -> Self {
        let (reader, writer) = tokio::io::split(attach(nri));
        let ids = [ChannelId::PLUGIN_SERVICE, ChannelId::RUNTIME_SERVICE];
        let (mux, [served, requests]) = Mux::over(reader, writer, ids, Limits::default());
        mux.admit();
        let stops = Arc::<Stops>::default();
        let services = Arc::new(service::create_plugin(Arc::clone(&stops) as Arc<_>));
        let serving = tokio::spawn(serve(served, services, ServeLimits::default(), CancellationToken::new()));
        let id = api::RegisterPluginRequest {
            plugin_name: "good".to_owned(),
            plugin_idx: "50".to_owned(),
            ..Default::default()
        };
        let method = Method { service: RUNTIME, name: "RegisterPlugin" };
        let registered = Client::new(requests).call(method, encode(&id).into(), Duration::from_secs(1)).await;
        registered.expect("the good plugin was not let in");
        let is_here = || nri.plugins().iter().any(|plugin| plugin.id.as_str() == "50-good");
        tokio::time::timeout(Duration::from_secs(1), async {
            while !is_here() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await
        .expect("the good plugin did not join");
        Self { mux, stops, serving }
    }

    fn heard(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.stops.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn leave(self) {
        self.mux.closed().await;
        self.serving.await.expect("the good plugin does not panic");
    }
}
