//! A plugin from before each notice had its own RPC, on the synchronous server of Rust's `ttrpc`.
//! That server answers `INVALID_ARGUMENT` for an unknown method, where Go's answers
//! `UNIMPLEMENTED`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::{Adaptation, Config, Happening, Notice, Source, UpdatesFailed};
use nri_proto::call::{Client, Method};
use nri_proto::mux::{ChannelId, Limits, Mux};
use nri_proto::{Container, Event, EventMask, Eviction, PluginId, Pod, Update, api};
use protobuf::Message;
use tokio::net::UnixStream;
use tokio::time::timeout;
use ttrpc::{MethodHandler, Request, Response, Server, TtrpcContext};

const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_on_a_synchronous_rust_server_hears_of_state_changes() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nri.sock");
    let nri = Adaptation::new(Config { socket: Some(socket.clone()), ..Config::default() }, Arc::new(Empty));
    let mut happenings = nri.watch();
    nri.listen().unwrap();
    let plugin = OldPlugin::join(&socket, directory.path()).await;
    let happening = timeout(LIMIT, happenings.recv()).await.unwrap().unwrap();
    assert!(matches!(happening, Happening::Joined { .. }), "{happening:?}");

    let life = nri.begin(Pod { id: "p".to_owned(), ..Pod::default() });
    let container = Container { id: "c".to_owned(), ..Container::default() };
    life.notify(Notice::RunPod).await.unwrap();
    life.notify(Notice::Start(container.clone())).await.unwrap();
    life.notify(Notice::Remove(container)).await.unwrap();
    life.commit();
    assert_eq!(*plugin.heard.lock().unwrap(), ["RUN_POD_SANDBOX p ", "START_CONTAINER p c", "REMOVE_CONTAINER p c"]);

    nri.stop().await;
    plugin.end().await;
}

/// A runtime without pods and containers.
struct Empty;

#[async_trait]
impl Source for Empty {
    async fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }

    async fn apply(&self, _: &PluginId, _: Vec<Update>, _: Vec<Eviction>) -> Result<Vec<Update>, UpdatesFailed> {
        Ok(Vec::new())
    }
}

/// A plugin that has only the RPCs of NRI before v0.10, and records its events.
struct OldPlugin {
    heard: Arc<Mutex<Vec<String>>>,
    server: Server,
    mux: Mux,
}

impl OldPlugin {
    /// Registers the plugin, and serves from then on. The server needs a socket of its own, so its
    /// data is copied from and to the multiplexer.
    async fn join(runtime: &Path, directory: &Path) -> Self {
        let own = directory.join("plugin.sock");
        let heard = Arc::default();
        let server = Server::new().bind(&format!("unix://{}", own.display())).unwrap();
        let mut server = server.register_service(methods(&heard));
        server.start().unwrap();

        let stream = UnixStream::connect(runtime).await.unwrap();
        let ids = [ChannelId::PLUGIN_SERVICE, ChannelId::RUNTIME_SERVICE];
        let (mux, [mut served, requests]) = Mux::on_unix(stream, ids, Limits::default()).unwrap();
        mux.admit();
        let mut inner = UnixStream::connect(own).await.unwrap();
        // The copying ends with the connection, with or without an error.
        tokio::spawn(async move { tokio::io::copy_bidirectional(&mut served, &mut inner).await.map(drop) });

        let register = api::RegisterPluginRequest {
            plugin_name: "old".to_owned(),
            plugin_idx: "10".to_owned(),
            ..Default::default()
        };
        let method = Method { service: "nri.pkg.api.v1alpha1.Runtime", name: "RegisterPlugin" };
        Client::new(requests).call(method, register.write_to_bytes().unwrap().into(), LIMIT).await.unwrap();
        Self { heard, server, mux }
    }

    async fn end(self) {
        timeout(LIMIT, self.mux.closed()).await.unwrap();
        tokio::task::spawn_blocking(|| self.server.shutdown()).await.unwrap();
    }
}

fn methods(heard: &Arc<Mutex<Vec<String>>>) -> HashMap<String, Box<dyn MethodHandler + Send + Sync>> {
    let events: EventMask = [Event::RunPodSandbox, Event::StartContainer, Event::RemoveContainer].into_iter().collect();
    let configured = api::ConfigureResponse { events: events.to_wire().unwrap(), ..Default::default() };
    let state_change = StateChange(Arc::clone(heard));
    let methods: [(&str, Box<dyn MethodHandler + Send + Sync>); 4] = [
        ("Configure", Box::new(Always(configured.write_to_bytes().unwrap()))),
        ("Synchronize", Box::new(Always(Vec::new()))),
        ("Shutdown", Box::new(Always(Vec::new()))),
        ("StateChange", Box::new(state_change)),
    ];
    methods.map(|(name, handler)| (format!("/nri.pkg.api.v1alpha1.Plugin/{name}"), handler)).into()
}

/// A method that always gives the same answer.
struct Always(Vec<u8>);

impl MethodHandler for Always {
    fn handler(&self, context: TtrpcContext, _: Request) -> ttrpc::Result<()> {
        context.respond(context.mh.stream_id, Response { payload: self.0.clone(), ..Default::default() })
    }
}

struct StateChange(Arc<Mutex<Vec<String>>>);

impl MethodHandler for StateChange {
    fn handler(&self, context: TtrpcContext, request: Request) -> ttrpc::Result<()> {
        let change = api::StateChangeEvent::parse_from_bytes(&request.payload).unwrap();
        let event = change.event.enum_value().unwrap();
        self.0.lock().unwrap().push(format!("{event:?} {} {}", change.pod.id, change.container.id));
        context.respond(context.mh.stream_id, Response::new())
    }
}
