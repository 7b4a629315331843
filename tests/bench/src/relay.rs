//! The Rust side of the benchmark: a runtime that relays StartContainer to the plugins that
//! connect to it. It obeys the same lines as Go's (`tests/interop/peers/cmd/benchruntime`).

use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use nri_proto::api::{
    ConfigureRequest, Empty, RegisterPluginRequest, StartContainerRequest, StartContainerResponse, SynchronizeRequest,
    UpdateContainersRequest, UpdateContainersResponse,
};
use nri_proto::call::{self, Client, Method, ServeLimits};
use nri_proto::mux::{ChannelId, Limits, Mux};
use nri_proto::service::{self, Runtime};
use protobuf::Message;
use serde_json::json;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::payload;
use crate::sample::{Sample, cpu_used};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
const JOIN_TIMEOUT: Duration = Duration::from_secs(20);

/// Serves until `quit`, or the end of the input.
pub(crate) fn serve(socket: &Path, request: &Path) -> Result<()> {
    let encoded = std::fs::read(request).with_context(|| format!("could not read {}", request.display()))?;
    let mut request = StartContainerRequest::parse_from_bytes(&encoded)?;
    let workers = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let plugins = Plugins::default();
    let listener = workers.block_on(async { UnixListener::bind(socket) })?;
    workers.spawn(admit_all(listener, plugins.clone()));

    let mut serial = 0;
    answer(
        &json!({ "versions": concat!("Rust ", env!("CARGO_PKG_RUST_VERSION"), ", nri-rs ", env!("CARGO_PKG_VERSION")) }),
    )?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        match *line.split_whitespace().collect::<Vec<_>>() {
            ["wait", n] => {
                plugins.wait(n.parse()?)?;
                answer(&json!({ "plugins": plugins.list().len() }))?;
            }
            ["run", n, chunk] => {
                let mut run = Run::default();
                let (n, chunk): (usize, usize) = (n.parse()?, chunk.parse()?);
                while run.took.len() < n {
                    let requests = payload::requests(&mut request, serial, chunk.min(n - run.took.len()))?;
                    serial += requests.len();
                    // As a task: a runtime's requests are made by its workers, not by its main thread.
                    run = workers.block_on(workers.spawn(run.relay(plugins.list(), requests)))??;
                }
                answer(&Sample::new(run.took, run.cpu)?)?;
            }
            ["quit"] => return answer(&json!({})),
            _ => bail!("{line:?} is not understood"),
        }
    }
    Ok(())
}

fn answer(answer: &impl serde::Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, answer)?;
    writeln!(out)?;
    out.flush().context("nobody listens")
}

/// What was measured so far.
#[derive(Default)]
struct Run {
    took: Vec<Duration>,
    cpu: Duration,
}

impl Run {
    /// Relays requests to the plugins in turn.
    async fn relay(mut self, plugins: Vec<Arc<Plugin>>, requests: Vec<Bytes>) -> Result<Self> {
        let start_container = method("StartContainer");
        let before = cpu_used()?;
        for request in requests {
            let start = Instant::now();
            for plugin in &plugins {
                let reply = plugin.client.call(start_container, request.clone(), REQUEST_TIMEOUT).await?;
                StartContainerResponse::parse_from_tokio_bytes(&reply)?;
            }
            self.took.push(start.elapsed());
        }
        self.cpu += cpu_used()? - before;
        Ok(self)
    }
}

/// The plugins that were admitted, in the order they are asked.
#[derive(Clone, Default)]
struct Plugins(Arc<Mutex<Vec<Arc<Plugin>>>>);

struct Plugin {
    index: String,
    client: Client,
    _mux: Mux,
}

impl Plugins {
    fn list(&self) -> Vec<Arc<Plugin>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, plugin: Plugin) {
        let mut plugins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        plugins.push(Arc::new(plugin));
        plugins.sort_by(|one, other| one.index.cmp(&other.index));
    }

    fn wait(&self, n: usize) -> Result<()> {
        let start = Instant::now();
        while self.list().len() < n {
            ensure!(start.elapsed() < JOIN_TIMEOUT, "{} of {n} plugins came", self.list().len());
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

async fn admit_all(listener: UnixListener, plugins: Plugins) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        plugins.add(admit(stream).await?);
    }
}

/// Registers, configures and synchronizes a plugin.
async fn admit(stream: UnixStream) -> Result<Plugin> {
    let ids = [ChannelId::PLUGIN_SERVICE, ChannelId::RUNTIME_SERVICE];
    let (mux, [calls, served]) = Mux::on_unix(stream, ids, Limits::default())?;
    let (registrar, mut registered) = mpsc::channel(1);
    let services = Arc::new(service::create_runtime(Arc::new(Registrar(registrar))));
    tokio::spawn(call::serve(served, services, ServeLimits::default(), CancellationToken::new()));
    let registered = tokio::time::timeout(JOIN_TIMEOUT, registered.recv()).await?;
    let index = registered.context("the plugin left before it registered")?.plugin_idx;
    mux.admit();

    let client = Client::new(calls);
    let configure = ConfigureRequest {
        runtime_name: "relay-bench".to_owned(),
        runtime_version: "v0.0.0".to_owned(),
        NRI_version: "v0.12.5".to_owned(),
        ..ConfigureRequest::default()
    };
    client.call(method("Configure"), configure.write_to_bytes()?.into(), REQUEST_TIMEOUT).await?;
    let synchronize = SynchronizeRequest::default().write_to_bytes()?;
    client.call(method("Synchronize"), synchronize.into(), REQUEST_TIMEOUT).await?;
    Ok(Plugin { index, client, _mux: mux })
}

fn method(name: &'static str) -> Method {
    Method { service: "nri.pkg.api.v1alpha1.Plugin", name }
}

/// Serves what plugins call.
struct Registrar(mpsc::Sender<RegisterPluginRequest>);

#[async_trait]
impl Runtime for Registrar {
    async fn register_plugin(
        &self,
        _: &ttrpc::r#async::TtrpcContext,
        request: RegisterPluginRequest,
    ) -> ttrpc::Result<Empty> {
        let taken = self.0.try_send(request);
        taken.map_err(|_| ttrpc::Error::Others("registered twice".to_owned()))?;
        Ok(Empty::default())
    }

    async fn update_containers(
        &self,
        _: &ttrpc::r#async::TtrpcContext,
        _: UpdateContainersRequest,
    ) -> ttrpc::Result<UpdateContainersResponse> {
        Ok(UpdateContainersResponse::default())
    }
}
