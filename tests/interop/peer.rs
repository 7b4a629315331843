//! A Go peer, our end of its connection, and the messages between them.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use nri_proto::call::{CallError, Client, Method, ServeLimits, Services, serve};
use nri_proto::mux::{Channel, ChannelId, Closed, Limits, Mux};
use nri_tests::go;
use protobuf::Message as _;
use protobuf::well_known_types::wrappers::BytesValue;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A time limit that is long enough on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The time limit of a test.
const LIMIT: Duration = Duration::from_secs(100);

/// The service of the Go program `peer`.
const PEER: &str = "nri.test.Peer";

/// Turns each function into a test against each version of Go's NRI.
macro_rules! against_every_go {
    ($($(#[$attribute:meta])* $story:ident,)*) => {
        mod v0_12_5 { $($(#[$attribute])* #[test] fn $story() { crate::peer::against("v0.12.5", super::$story); })* }
        mod v0_8_0 { $($(#[$attribute])* #[test] fn $story() { crate::peer::against("v0.8.0", super::$story); })* }
        mod v0_3_0 { $($(#[$attribute])* #[test] fn $story() { crate::peer::against("v0.3.0", super::$story); })* }
    };
}
pub(crate) use against_every_go;

/// Runs one story on a Tokio runtime of its own, and checks that it leaves no task behind.
pub(crate) fn against<F: Future<Output = ()>>(version: &'static str, story: fn(Go) -> F) {
    let programs = ["frames", "peer", "rogue"].map(|name| go::peer(version, name));
    let [Ok(frames), Ok(peer), Ok(rogue)] = programs else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(LIMIT, story(Go { version, frames, peer, rogue })).await.expect("the test hangs");
        no_tasks().await;
    });
}

/// Waits until no task is left on this runtime.
pub(crate) async fn no_tasks() {
    let metrics = Handle::current().metrics();
    let given_up = Instant::now() + PATIENCE;
    while metrics.num_alive_tasks() > 0 {
        assert!(Instant::now() < given_up, "{} tasks are left", metrics.num_alive_tasks());
        tokio::task::yield_now().await;
    }
}

/// One version of Go's NRI, and the programs that were built with it.
pub(crate) struct Go {
    pub(crate) version: &'static str,
    frames: PathBuf,
    peer: PathBuf,
    rogue: PathBuf,
}

impl Go {
    /// Starts the program `frames`, and returns it and our end of its connection.
    pub(crate) fn frames(&self, args: &[&str]) -> (Peer, UnixStream) {
        start(&self.frames, args)
    }

    /// Starts the program `peer`, and connects to it as a runtime does to a plugin that it has
    /// admitted.
    pub(crate) fn peer(&self, args: &[&str]) -> (Peer, Connection) {
        let (peer, socket) = start(&self.peer, args);
        (peer, Connection::over(socket))
    }

    /// Starts the program `rogue`, and connects to it in the same way.
    pub(crate) fn rogue(&self, args: &[&str]) -> (Peer, Connection) {
        let (peer, socket) = start(&self.rogue, args);
        (peer, Connection::over(socket))
    }
}

/// Starts a Go program with a socket as its standard input, and returns it and the socket's other
/// end.
fn start(program: &Path, args: &[&str]) -> (Peer, UnixStream) {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let stderr = tempfile::tempfile().unwrap();
    let child = Command::new(program)
        .args(args)
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(stderr.try_clone().unwrap())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let socket = fs::read_link(format!("/proc/self/fd/{}", ours.as_raw_fd())).unwrap();
    ours.set_nonblocking(true).unwrap();
    let peer = Peer { child, stderr, socket: socket.into_os_string().into_string().unwrap() };
    (peer, UnixStream::from_std(ours).unwrap())
}

/// A running Go program. Dropping it kills the process.
pub(crate) struct Peer {
    child: Child,
    stderr: File,
    /// The name of our end of its connection in `/proc/self/fd`.
    socket: String,
}

impl Peer {
    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.child.id().expect("the peer was not waited for");
        kill(Pid::from_raw(id.try_into().unwrap()), signal).unwrap();
    }

    /// Kills the program, if it has not ended.
    pub(crate) fn kill(&mut self) {
        self.child.start_kill().unwrap();
    }

    /// Stops the program, and returns when it stands still.
    pub(crate) async fn stop(&self) {
        self.signal(Signal::SIGSTOP);
        let stat = format!("/proc/{}/stat", self.child.id().unwrap());
        while !fs::read_to_string(&stat).unwrap().contains(") T ") {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until the program has written this to standard error, or has ended.
    pub(crate) async fn says(&mut self, text: &str) {
        let given_up = Instant::now() + PATIENCE;
        while !self.complaints().contains(text) && self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < given_up, "the peer does not say {text:?}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until the program has ended by itself, and returns its standard error.
    pub(crate) async fn ended(&mut self) -> String {
        tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("the peer goes on").unwrap();
        self.complaints()
    }

    pub(crate) fn complaints(&mut self) -> String {
        let mut text = String::new();
        self.stderr.rewind().unwrap();
        self.stderr.read_to_string(&mut text).unwrap();
        text
    }

    /// Returns whether our end of the connection is still open.
    pub(crate) fn is_connected(&self) -> bool {
        let open = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        open.into_iter().any(|link| link.to_str() == Some(&self.socket))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the peer said:\n{}", self.complaints());
        }
    }
}

/// Our end of a connection: a client on channel 1, and a server on channel 2.
pub(crate) struct Connection {
    pub(crate) mux: Mux,
    pub(crate) client: Client,
    pub(crate) served: Channel,
}

impl Connection {
    pub(crate) fn over(socket: UnixStream) -> Self {
        let (mux, [requests, served]) = Mux::on_unix(socket, CHANNELS, Limits::default()).unwrap();
        mux.admit();
        Self { mux, client: Client::new(requests), served }
    }

    /// Calls the Go program `peer`.
    pub(crate) async fn ask(&self, method: &'static str, value: impl Into<Vec<u8>>) -> Result<Vec<u8>, CallError> {
        ask(&self.client, method, value).await
    }

    /// Serves `services` on channel 2.
    pub(crate) fn serving(self, services: Services, limits: ServeLimits) -> Serving {
        let Self { mux, client, served } = self;
        let shutdown = CancellationToken::new();
        let server = tokio::spawn(serve(served, Arc::new(services), limits, shutdown.clone()));
        Serving { mux, client, shutdown, server }
    }

    /// Waits for the end of the connection, and checks that nothing stays open.
    pub(crate) async fn ended(self, peer: &Peer) -> Closed {
        let reason = tokio::time::timeout(PATIENCE, self.mux.closed()).await.expect("the connection does not end");
        // The connection is not dropped yet, so something else has closed it.
        assert!(!peer.is_connected(), "the socket is still open after: {reason}");
        reason
    }
}

pub(crate) const CHANNELS: [ChannelId; 2] = [ChannelId::PLUGIN_SERVICE, ChannelId::RUNTIME_SERVICE];

/// A connection on which our server runs, too.
pub(crate) struct Serving {
    pub(crate) mux: Mux,
    pub(crate) client: Client,
    pub(crate) shutdown: CancellationToken,
    pub(crate) server: JoinHandle<()>,
}

impl Serving {
    /// Calls the Go program `peer`, and returns its answer as text.
    pub(crate) async fn ask(&self, method: &'static str, value: impl Into<Vec<u8>>) -> String {
        String::from_utf8(ask(&self.client, method, value).await.unwrap()).unwrap()
    }

    /// Closes the connection and waits for the server.
    pub(crate) async fn end(self) {
        self.mux.close();
        tokio::time::timeout(PATIENCE, self.server).await.expect("the server does not end").unwrap();
    }
}

/// Returns a method of the Go program `peer`.
pub(crate) fn method(name: &'static str) -> Method {
    Method { service: PEER, name }
}

/// Calls the Go program `peer`.
pub(crate) async fn ask(client: &Client, name: &'static str, value: impl Into<Vec<u8>>) -> Result<Vec<u8>, CallError> {
    client.call(method(name), encode(value), PATIENCE).await.map(decode)
}

/// Returns the message that contains a value.
pub(crate) fn encode(value: impl Into<Vec<u8>>) -> Bytes {
    let message = BytesValue { value: value.into(), ..BytesValue::default() };
    message.write_to_bytes().unwrap().into()
}

/// Returns the value in a message.
pub(crate) fn decode(message: Bytes) -> Vec<u8> {
    BytesValue::parse_from_tokio_bytes(&message).unwrap().value
}

/// Returns this many bytes in a pattern that a shift or a swap would change.
pub(crate) fn pattern(size: usize) -> Vec<u8> {
    let mut bytes = (0..251).collect::<Vec<u8>>().repeat(size / 251 + 1);
    bytes.truncate(size);
    bytes
}
