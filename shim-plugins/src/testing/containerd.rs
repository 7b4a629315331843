//! A fake containerd of every supported version, which starts shims in this process.

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

use super::events::{self, EventServer, RecordedEvent};
use super::launcher::ThreadLauncher;
use super::output::CapturedOutput;
use super::running::RunningShim;
use crate::runner::info::ALLOW_MOUNTS;
use crate::runner::{DEFAULT_READY_LIMIT, Environment, Mounts, RunError, Shim};

/// The number of the log level "debug".
const DEBUG_LEVEL: i32 = -4;

/// The namespace of all containers of a [`FakeContainerd`].
pub const NAMESPACE: &str = "testing";

/// A version of containerd, by its protocol with shims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    /// 1.6: sets few variables, and expects a text answer.
    V1_6,
    /// 1.7: expects text, or JSON of at most version 2.
    V1_7,
    /// 2.0 to 2.2: expect text, or JSON of at most version 3.
    V2_0,
    /// 2.3: sends and expects messages, and asks for the mounts of the shim with `-info`.
    V2_3,
    /// 2.4: reads the mounts of the shim from the answer.
    V2_4,
}

impl Daemon {
    /// All versions.
    pub const ALL: [Self; 5] = [Self::V1_6, Self::V1_7, Self::V2_0, Self::V2_3, Self::V2_4];

    /// Returns the version that this containerd sends to `start`, if it sends one.
    fn version(self) -> Option<&'static str> {
        match self {
            Self::V1_6 | Self::V1_7 | Self::V2_0 => None,
            Self::V2_3 => Some("2.3.7"),
            Self::V2_4 => Some("2.4.2"),
        }
    }
}

/// A fake containerd: runs shims in this process, without root, and records their events.
pub struct FakeContainerd {
    daemon: Daemon,
    dir: TempDir,
    event_server: Option<EventServer>,
    seen: events::EventLog,
}

/// The bundle and the options of a container.
#[derive(Clone, Debug, Default)]
pub struct Bundle {
    /// The annotations of the container.
    pub annotations: BTreeMap<String, String>,
    /// The options of the runtime.
    pub options: Option<Any>,
    /// Whether containerd asks for debug output.
    pub debug: bool,
}

/// The answer of `start`.
struct StartAnswer {
    version: i32,
    address: String,
    mounts: Option<Mounts>,
}

impl FakeContainerd {
    /// Creates a containerd of a version, with a directory of its own.
    pub fn new(daemon: Daemon) -> io::Result<Self> {
        // The path must be short, so that the paths of sockets are not too long.
        let dir = tempfile::Builder::new().prefix("s").tempdir_in(env::temp_dir())?;
        let seen = events::EventLog::default();
        let mut containerd = Self { daemon, dir, event_server: None, seen };
        containerd.come_back()?;
        Ok(containerd)
    }

    fn ttrpc_address(&self) -> PathBuf {
        self.dir.path().join("c.sock.ttrpc")
    }

    fn grpc_address(&self) -> String {
        self.dir.path().join("c.sock").display().to_string()
    }

    /// Returns the directory of the shims' sockets.
    pub fn socket_dir(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    /// Returns the bundle of a container.
    pub fn bundle(&self, id: &str) -> PathBuf {
        self.dir.path().join(id)
    }

    /// Returns the events received so far, in order.
    pub fn events(&self) -> Vec<RecordedEvent> {
        self.seen.all()
    }

    /// Waits until at least `n` events were received.
    pub async fn heard(&self, n: usize) -> Vec<RecordedEvent> {
        loop {
            let events = self.events();
            if events.len() >= n {
                return events;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Stops listening, like a daemon that is restarted.
    pub fn go_away(&mut self) {
        self.event_server = None;
        let _ = fs::remove_file(self.ttrpc_address());
    }

    /// Listens again.
    pub fn come_back(&mut self) -> io::Result<()> {
        self.event_server = Some(EventServer::start(&self.ttrpc_address(), self.seen.clone())?);
        Ok(())
    }

    /// Runs the action `start` of a shim for a container.
    pub async fn start(&self, shim: &Arc<Shim>, id: &str) -> Result<RunningShim, RunError> {
        self.start_with(shim, id, &Bundle::default()).await
    }

    /// Runs the action `start` for a container with a given bundle and options.
    pub async fn start_with(&self, shim: &Arc<Shim>, id: &str, bundle: &Bundle) -> Result<RunningShim, RunError> {
        self.try_start(shim, id, bundle, DEFAULT_READY_LIMIT).await
    }

    /// Runs the action `start` with a limit for the server to be ready.
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
            self.parse_answer(&output.taken()).map_err(RunError::Answer)?;
        if self.daemon.version().is_some() && mounts.is_none() {
            mounts = self.ask_for_mounts(shim).await?;
        }
        let socket = Socket::connect(&address).await.map_err(RunError::Answer)?;
        Ok(RunningShim { address, version, mounts, client: Client::new(socket), server: launcher.server() })
    }

    /// Runs the action `delete` of a shim for a container.
    pub async fn delete(&self, shim: &Arc<Shim>, id: &str) -> Result<DeleteResponse, RunError> {
        let output = CapturedOutput::default();
        let mut environment = self.environment(id, "delete", Vec::new(), &output, ThreadLauncher::new(shim));
        let bundle = ["-bundle".to_owned(), self.bundle(id).display().to_string()];
        environment.args.splice(0..0, bundle);
        self.run(shim, environment).await?;
        let broken = |error: protobuf::Error| RunError::Answer(io::Error::other(error));
        DeleteResponse::parse_from_bytes(&output.taken()).map_err(broken)
    }

    /// Runs a shim with any arguments, and returns its output.
    pub async fn ask(&self, shim: &Arc<Shim>, args: &[&str]) -> Result<Vec<u8>, RunError> {
        let output = CapturedOutput::default();
        let mut environment = self.environment("", "", Vec::new(), &output, ThreadLauncher::new(shim));
        environment.args = args.iter().map(|&arg| arg.to_owned()).collect();
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

    /// Encodes the standard input that this containerd sends to `start`.
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

    /// Parses an answer as this containerd does.
    fn parse_answer(&self, answer: &[u8]) -> io::Result<StartAnswer> {
        if self.daemon.version().is_some()
            && let Ok(result) = BootstrapResult::parse_from_bytes(answer)
        {
            let mounts = Mounts::in_answer(&result).filter(|_| self.daemon == Daemon::V2_4);
            return Ok(StartAnswer { version: result.version, address: result.address, mounts });
        }
        let text = std::str::from_utf8(answer).map_err(io::Error::other)?.trim();
        Ok(StartAnswer { version: 2, address: text.to_owned(), mounts: None })
    }

    /// Asks for the mounts of a shim with `-info`, as containerd does if the answer lacks them.
    async fn ask_for_mounts(&self, shim: &Arc<Shim>) -> Result<Option<Mounts>, RunError> {
        let info = RuntimeInfo::parse_from_bytes(&self.ask(shim, &["-info"]).await?);
        let info = info.map_err(|error| RunError::Answer(io::Error::other(error)))?;
        let types = info.annotations.get(ALLOW_MOUNTS);
        Ok(types.map(|types| Mounts { types: types.split(',').map(str::to_owned).collect(), transforms: Vec::new() }))
    }
}
