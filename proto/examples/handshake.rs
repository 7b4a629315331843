//! A runtime and a plugin in one process, connected by a real socket: registration, and a request.
//!
//! `cargo run -p nri-proto --example handshake`

#![allow(clippy::print_stdout)] // The example prints what happens.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use nri_proto::call::{self, Client, Method, ServeLimits};
use nri_proto::mux::{ChannelId, Limits, Mux};
use nri_proto::{Event, EventMask, api, service};
use protobuf::Message;
use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use ttrpc::r#async::TtrpcContext;

const PLUGIN: &str = "nri.pkg.api.v1alpha1.Plugin";
const RUNTIME: &str = "nri.pkg.api.v1alpha1.Runtime";
const TIMEOUT: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let clock = Clock(Instant::now());
    clock.show("", "a plugin connects to the runtime's socket");
    let (near, far) = UnixStream::pair()?;
    let plugin = tokio::spawn(plugin(far, clock));
    runtime(near, clock).await?;
    plugin.await??;
    clock.show("", "both ends are closed");
    Ok(())
}

/// The runtime: admits the plugin, then notifies it of the start of a container.
async fn runtime(stream: UnixStream, clock: Clock) -> anyhow::Result<()> {
    let ids = [ChannelId::PLUGIN_SERVICE, ChannelId::RUNTIME_SERVICE];
    let (mux, [requests, served]) = Mux::on_unix(stream, ids, Limits::default())?;
    let registered = Arc::new(Notify::new());
    let services = service::create_runtime(Arc::new(Registry { registered: Arc::clone(&registered), clock }));
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(call::serve(served, Arc::new(services), ServeLimits::default(), shutdown.clone()));
    let plugin = Client::new(requests);

    registered.notified().await;
    mux.admit();

    let configure = api::ConfigureRequest { runtime_name: "example".to_owned(), ..Default::default() };
    clock.show("runtime -> plugin", "Configure");
    let answer = plugin.call(ask("Configure"), encoded(&configure)?, TIMEOUT).await?;
    let events = api::ConfigureResponse::parse_from_bytes(&answer)?.events;
    clock.show("runtime <- plugin", &format!("subscribes to {}", EventMask::from_wire(events)));

    clock.show("runtime -> plugin", "Synchronize, with no pods and no containers");
    plugin.call(ask("Synchronize"), encoded(&api::SynchronizeRequest::new())?, TIMEOUT).await?;

    let start = api::StartContainerRequest {
        pod: Some(pod()).into(),
        container: Some(container()).into(),
        ..Default::default()
    };
    let request = encoded(&start)?;
    clock.show("runtime -> plugin", &format!("StartContainer, {} bytes, encoded once for all plugins", request.len()));
    plugin.call(ask("StartContainer"), request, TIMEOUT).await?;
    clock.show("runtime <- plugin", "done");

    shutdown.cancel();
    mux.finish(TIMEOUT).await;
    server.await?;
    Ok(())
}

/// The plugin: registers, then serves requests until the runtime closes the connection.
async fn plugin(stream: UnixStream, clock: Clock) -> anyhow::Result<()> {
    let ids = [ChannelId::PLUGIN_SERVICE, ChannelId::RUNTIME_SERVICE];
    let (mux, [served, requests]) = Mux::on_unix(stream, ids, Limits::default())?;
    mux.admit();
    let services = service::create_plugin(Arc::new(Logger(clock)));
    let server =
        tokio::spawn(call::serve(served, Arc::new(services), ServeLimits::default(), CancellationToken::new()));

    let runtime = Client::new(requests);
    let register = api::RegisterPluginRequest {
        plugin_name: "logger".to_owned(),
        plugin_idx: "10".to_owned(),
        ..Default::default()
    };
    clock.show("plugin -> runtime", "RegisterPlugin 10-logger");
    runtime.call(Method { service: RUNTIME, name: "RegisterPlugin" }, encoded(&register)?, TIMEOUT).await?;
    let reason = mux.closed().await;
    clock.show("plugin", &format!("leaves: {reason}"));
    server.await?;
    Ok(())
}

struct Registry {
    registered: Arc<Notify>,
    clock: Clock,
}

#[async_trait]
impl service::Runtime for Registry {
    async fn register_plugin(&self, _: &TtrpcContext, plugin: api::RegisterPluginRequest) -> ttrpc::Result<api::Empty> {
        self.clock.show("runtime", &format!("lets {}-{} in", plugin.plugin_idx, plugin.plugin_name));
        self.registered.notify_one();
        Ok(api::Empty::new())
    }
}

struct Logger(Clock);

#[async_trait]
impl service::Plugin for Logger {
    async fn configure(&self, _: &TtrpcContext, _: api::ConfigureRequest) -> ttrpc::Result<api::ConfigureResponse> {
        let events = EventMask::from(Event::StartContainer).to_wire().unwrap_or_default();
        Ok(api::ConfigureResponse { events, ..Default::default() })
    }

    async fn synchronize(
        &self,
        _: &TtrpcContext,
        _: api::SynchronizeRequest,
    ) -> ttrpc::Result<api::SynchronizeResponse> {
        Ok(api::SynchronizeResponse::new())
    }

    async fn start_container(
        &self,
        _: &TtrpcContext,
        request: api::StartContainerRequest,
    ) -> ttrpc::Result<api::StartContainerResponse> {
        let (pod, container) = (&request.pod.name, &request.container.name);
        self.0.show("plugin", &format!("sees container {container} of pod {pod} start"));
        Ok(api::StartContainerResponse::new())
    }
}

/// Prints an event, with the time since the start of the example.
#[derive(Clone, Copy)]
struct Clock(Instant);

impl Clock {
    fn show(self, who: &str, what: &str) {
        println!("{:>8.3} ms  {who:<18} {what}", self.0.elapsed().as_secs_f64() * 1e3);
    }
}

fn ask(name: &'static str) -> Method {
    Method { service: PLUGIN, name }
}

fn encoded(message: &impl Message) -> anyhow::Result<Bytes> {
    Ok(message.write_to_bytes()?.into())
}

fn pod() -> api::PodSandbox {
    api::PodSandbox {
        id: "pod0".to_owned(),
        name: "web".to_owned(),
        namespace: "default".to_owned(),
        ..Default::default()
    }
}

fn container() -> api::Container {
    api::Container {
        id: "ctr0".to_owned(),
        pod_sandbox_id: "pod0".to_owned(),
        name: "nginx".to_owned(),
        env: vec!["PATH=/usr/bin:/bin".to_owned()],
        ..Default::default()
    }
}
