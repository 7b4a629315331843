//! A containerd that is none, in every version.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

use containerd_shim_protos::api::DeleteResponse;
use containerd_shim_protos::bootstrap_api::{BootstrapParams, BootstrapResult, Extension};
use containerd_shim_protos::types::introspection::RuntimeInfo;
use protobuf::Message;
use protobuf::well_known_types::any::Any;
use serde_json::json;
use tempfile::TempDir;
use ttrpc::asynchronous::Client;
use ttrpc::asynchronous::transport::Socket;
use ttrpc::{Code, Request};

use super::events::{self, EventServer, RecordedEvent};
use super::launcher::{self, ThreadLauncher};
use super::output::CapturedOutput;
use crate::runner::info::ALLOW_MOUNTS;
use crate::runner::{ControlSignal, DEFAULT_READY_LIMIT, Environment, Mounts, RunError, ServeError, Shim};
use crate::server::task;

/// How long a call may take.
const CALL_LIMIT: Duration = Duration::from_secs(20);

/// What "debug" is among the levels of a log.
const DEBUG_LEVEL: i32 = -4;

/// The namespace that containers are in.
pub const NAMESPACE: &str = "testing";

/// A containerd, by the way in which it talks to shims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    /// 1.6: sets few variables, and takes text.
    V1_6,
    /// 1.7: takes JSON of version 2 at most, or text.
    V1_7,
    /// 2.0 to 2.2: take JSON of version 3 at most, or text.
    V2_0,
    /// 2.3: says and takes messages, and asks which mounts the shim performs.
    V2_3,
    /// 2.4: takes from the answer which mounts these are.
    V2_4,
}

impl Daemon {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::V1_6, Self::V1_7, Self::V2_0, Self::V2_3, Self::V2_4];

    /// The version that it says it is, if it says so.
    fn version(self) -> Option<&'static str> {
        match self {
            Self::V1_6 | Self::V1_7 | Self::V2_0 => None,
            Self::V2_3 => Some("2.3.7"),
            Self::V2_4 => Some("2.4.2"),
        }
    }
}

/// A containerd that is none.
pub struct FakeContainerd {
    daemon: Daemon,
    dir: TempDir,
    listening: Option<EventServer>,
    seen: events::EventLog,
}

/// What a container is created with.
#[derive(Clone, Debug, Default)]
pub struct Bundle {
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The options of the runtime.
    pub options: Option<Any>,
    /// Whether containerd wants to hear more than usual.
    pub debug: bool,
}

/// What `start` answered.
struct StartAnswer {
    version: i32,
    address: String,
    mounts: Option<Mounts>,
}

/// A shim that was started, and a connection to it.
pub struct RunningShim {
    /// The address that it gave.
    pub address: String,
    /// The version that it gave.
    pub version: i32,
    /// The mounts that containerd knows the shim to perform itself; `None` before 2.3, and where nothing is said.
    pub mounts: Option<Mounts>,
    client: Client,
    server: Option<launcher::ServerThread>,
}

impl FakeContainerd {
    /// A containerd that talks as that one, with a directory of its own.
    pub fn new(daemon: Daemon) -> io::Result<Self> {
        // A short path: a socket's must fit.
        let dir = tempfile::Builder::new().prefix("s").tempdir_in(env::temp_dir())?;
        let seen = events::EventLog::default();
        let mut containerd = Self { daemon, dir, listening: None, seen };
        containerd.come_back()?;
        Ok(containerd)
    }

    fn ttrpc_address(&self) -> PathBuf {
        self.dir.path().join("c.sock.ttrpc")
    }

    fn grpc_address(&self) -> String {
        self.dir.path().join("c.sock").display().to_string()
    }

    /// Where the sockets of shims are.
    pub fn socket_dir(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    /// The bundle of a container.
    pub fn bundle(&self, id: &str) -> PathBuf {
        self.dir.path().join(id)
    }

    /// The events that it heard, in order.
    pub fn events(&self) -> Vec<RecordedEvent> {
        self.seen.all()
    }

    /// Waits until it has heard so many events.
    pub async fn heard(&self, n: usize) -> Vec<RecordedEvent> {
        loop {
            let events = self.events();
            if events.len() >= n {
                return events;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Stops listening, as a daemon that is restarted.
    pub fn go_away(&mut self) {
        self.listening = None;
        let _ = fs::remove_file(self.ttrpc_address());
    }

    /// Listens again.
    pub fn come_back(&mut self) -> io::Result<()> {
        self.listening = Some(EventServer::start(&self.ttrpc_address(), self.seen.clone())?);
        Ok(())
    }

    /// Starts a shim for a container, as `start` does.
    pub async fn start(&self, shim: &Arc<Shim>, id: &str) -> Result<RunningShim, RunError> {
        self.start_with(shim, id, &Bundle::default()).await
    }

    /// Starts a shim for a container of a certain kind.
    pub async fn start_with(&self, shim: &Arc<Shim>, id: &str, bundle: &Bundle) -> Result<RunningShim, RunError> {
        self.try_start(shim, id, bundle, DEFAULT_READY_LIMIT).await
    }

    /// Starts a shim that has to be ready within a limit.
    pub async fn start_within(&self, shim: &Arc<Shim>, id: &str, limit: Duration) -> Result<RunningShim, RunError> {
        self.try_start(shim, id, &Bundle::default(), limit).await
    }

    async fn try_start(
        &self,
        shim: &Arc<Shim>,
        id: &str,
        bundle: &Bundle,
        limit: Duration,
    ) -> Result<RunningShim, RunError> {
        self.make_bundle(id, bundle).map_err(RunError::Answer)?;
        let launcher = ThreadLauncher::new(shim);
        let output = CapturedOutput::default();
        let mut environment = self.environment(id, "start", self.input(id, bundle), &output, launcher.clone());
        environment.ready_limit = limit;
        if bundle.debug {
            environment.args.insert(0, "-debug".to_owned());
        }
        self.run(shim, environment).await?;
        let StartAnswer { version, address, mut mounts } =
            self.understand(&output.taken()).map_err(RunError::Answer)?;
        if self.daemon.version().is_some() && mounts.is_none() {
            mounts = self.ask_for_mounts(shim).await?;
        }
        let socket = Socket::connect(&address).await.map_err(RunError::Answer)?;
        Ok(RunningShim { address, version, mounts, client: Client::new(socket), server: launcher.server() })
    }

    /// Cleans up after a container, as `delete` does.
    pub async fn delete(&self, shim: &Arc<Shim>, id: &str) -> Result<DeleteResponse, RunError> {
        let output = CapturedOutput::default();
        let mut environment = self.environment(id, "delete", Vec::new(), &output, ThreadLauncher::new(shim));
        let bundle = ["-bundle".to_owned(), self.bundle(id).display().to_string()];
        environment.args.splice(0..0, bundle);
        self.run(shim, environment).await?;
        let broken = |error: protobuf::Error| RunError::Answer(io::Error::other(error));
        DeleteResponse::parse_from_bytes(&output.taken()).map_err(broken)
    }

    /// Runs a shim with any words, and returns what it says.
    pub async fn ask(&self, shim: &Arc<Shim>, words: &[&str]) -> Result<Vec<u8>, RunError> {
        let output = CapturedOutput::default();
        let mut environment = self.environment("", "", Vec::new(), &output, ThreadLauncher::new(shim));
        environment.args = words.iter().map(|&word| word.to_owned()).collect();
        self.run(shim, environment).await?;
        Ok(output.taken())
    }

    async fn run(&self, shim: &Arc<Shim>, environment: Environment) -> Result<(), RunError> {
        let shim = Arc::clone(shim);
        let running = tokio::task::spawn_blocking(move || shim.run_in(environment));
        running.await.map_err(|error| RunError::Answer(io::Error::other(error)))?
    }

    fn make_bundle(&self, id: &str, bundle: &Bundle) -> io::Result<()> {
        let dir = self.bundle(id);
        fs::create_dir_all(&dir)?;
        let spec = json!({ "annotations": bundle.annotations, "process": { "args": ["/bin/true"] } });
        fs::write(dir.join("config.json"), spec.to_string())
    }

    /// What this containerd says on standard input.
    fn input(&self, id: &str, bundle: &Bundle) -> Vec<u8> {
        let message: Box<dyn protobuf::MessageDyn> = match (self.daemon.version(), &bundle.options) {
            (Some(version), options) => {
                let mut params = BootstrapParams::new();
                id.clone_into(&mut params.instance_id);
                NAMESPACE.clone_into(&mut params.namespace);
                version.clone_into(&mut params.containerd_version);
                params.containerd_ttrpc_address = self.ttrpc_address().display().to_string();
                params.containerd_grpc_address = self.grpc_address();
                params.log_level = protobuf::EnumOrUnknown::from_i32(if bundle.debug { DEBUG_LEVEL } else { 0 });
                params.socket_dir = Some(self.socket_dir().display().to_string());
                let extension = |value| Extension { value: Some(value).into(), ..Default::default() };
                params.extensions.extend(options.clone().map(extension));
                Box::new(params)
            }
            (None, Some(options)) => Box::new(options.clone()),
            (None, None) => return Vec::new(),
        };
        message.write_to_bytes_dyn().expect("a message is encoded into memory")
    }

    fn environment(
        &self,
        id: &str,
        action: &str,
        input: Vec<u8>,
        output: &CapturedOutput,
        launcher: ThreadLauncher,
    ) -> Environment {
        let address = self.grpc_address();
        let args = ["-namespace", NAMESPACE, "-address", &address, "-publish-binary", "/bin/false", "-id", id, action];
        let mut vars = vec![("TTRPC_ADDRESS", self.ttrpc_address().display().to_string())];
        if self.daemon != Daemon::V1_6 {
            vars.push(("MAX_SHIM_VERSION", "2".to_owned()));
            vars.push(("GRPC_ADDRESS", address.clone()));
            vars.push(("NAMESPACE", NAMESPACE.to_owned()));
        }
        Environment {
            args: args.map(str::to_owned).into(),
            vars: vars.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            directory: self.bundle(id),
            input: Box::new(io::Cursor::new(input)),
            output: Box::new(output.clone()),
            socket_dir: self.socket_dir(),
            ready_limit: DEFAULT_READY_LIMIT,
            launcher: Box::new(launcher),
        }
    }

    /// Reads an answer as this containerd does.
    fn understand(&self, answer: &[u8]) -> io::Result<StartAnswer> {
        if self.daemon.version().is_some()
            && let Ok(result) = BootstrapResult::parse_from_bytes(answer)
        {
            let mounts = Mounts::in_answer(&result).filter(|_| self.daemon == Daemon::V2_4);
            return Ok(StartAnswer { version: result.version, address: result.address, mounts });
        }
        let text = std::str::from_utf8(answer).map_err(io::Error::other)?.trim();
        Ok(StartAnswer { version: 2, address: text.to_owned(), mounts: None })
    }

    /// Asks for the mounts that a shim performs itself, as a containerd does that was not told.
    async fn ask_for_mounts(&self, shim: &Arc<Shim>) -> Result<Option<Mounts>, RunError> {
        let info = RuntimeInfo::parse_from_bytes(&self.ask(shim, &["-info"]).await?);
        let info = info.map_err(|error| RunError::Answer(io::Error::other(error)))?;
        let types = info.annotations.get(ALLOW_MOUNTS);
        Ok(types.map(|types| Mounts { types: types.split(',').map(str::to_owned).collect(), transforms: Vec::new() }))
    }
}

impl RunningShim {
    /// Calls a method of Task, in the version that was agreed on.
    pub async fn task<Q: Message, A: Message>(&self, method: &str, request: &Q) -> ttrpc::Result<A> {
        let service = if self.version == 3 { task::V3 } else { task::V2 };
        self.call(service, method, request).await
    }

    /// Calls a method of any service.
    pub async fn call<Q: Message, A: Message>(&self, service: &str, method: &str, request: &Q) -> ttrpc::Result<A> {
        let mut call = Request::new();
        service.clone_into(&mut call.service);
        method.clone_into(&mut call.method);
        call.timeout_nano = i64::try_from(CALL_LIMIT.as_nanos()).unwrap_or(i64::MAX);
        call.payload = request.write_to_bytes().map_err(|error| ttrpc::Error::Others(error.to_string()))?;
        let response = self.client.request(call).await?;
        match response.status.as_ref() {
            Some(status) if status.code() != Code::OK => Err(ttrpc::Error::RpcStatus(status.clone())),
            Some(_) | None => {
                A::parse_from_bytes(&response.payload).map_err(|error| ttrpc::Error::Others(error.to_string()))
            }
        }
    }

    /// Sends a signal to the server, if it is this one that was started for it.
    pub async fn signal(&self, signal: ControlSignal) {
        if let Some(server) = &self.server {
            let _ = server.signals.send(signal).await;
        }
    }

    /// Waits for the end of the server.
    pub async fn ended(self) -> Result<(), ServeError> {
        match self.server {
            Some(server) => server.ended().await,
            None => Ok(()),
        }
    }

    /// Ends the server in order, and waits for it.
    pub async fn terminate(self) -> Result<(), ServeError> {
        self.signal(ControlSignal::End).await;
        self.ended().await
    }

    /// Ends the server as `kill -9` does.
    pub async fn kill(self) {
        if let Some(server) = self.server {
            server.kill().await;
        }
    }
}
