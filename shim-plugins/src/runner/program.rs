//! The shim as a process of its own: its arguments, descriptors, signals and threads.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use rustix::process::Pid;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tracing::debug;

use super::environment::{ControlSignal, DEFAULT_READY_LIMIT, Environment, LaunchedServer, Launcher, ServerParams};
use super::flags::Flags;
use super::serve::{self, ServeError};
use super::shim::Shim;
use super::{log, socket};

/// The pause between checks whether a server process has ended.
const END_PAUSE: Duration = Duration::from_millis(5);

/// Reads the environment of this process.
pub(super) fn environment() -> io::Result<Environment> {
    let directory = match env::current_dir() {
        // `start` was killed, and containerd has already removed the bundle. The server runs on, to
        // remove the socket.
        Err(_) if is_listening().unwrap_or(false) => PathBuf::new(),
        directory => directory?,
    };
    Ok(Environment {
        args: env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect(),
        vars: env::vars_os()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
            .collect(),
        directory,
        input: Box::new(io::stdin()),
        output: keep_output()?,
        socket_dir: PathBuf::from(socket::DEFAULT_DIR),
        ready_limit: DEFAULT_READY_LIMIT,
        launcher: Box::new(SelfLauncher),
    })
}

/// Keeps standard output for the answer, and redirects other output to standard error.
///
/// Containerd would take every byte on standard output for a part of the answer. It logs standard
/// error.
fn keep_output() -> io::Result<Box<dyn io::Write + Send>> {
    // In a server process, standard output is the handshake, which the server takes itself.
    if is_listening().unwrap_or(false) {
        return Ok(Box::new(io::sink()));
    }
    let kept = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(Box::new(fs::File::from(kept)))
}

/// Returns whether standard input is a listening socket, as in a process of [`SelfLauncher`].
fn is_listening() -> io::Result<bool> {
    Ok(rustix::net::sockopt::socket_acceptconn(io::stdin().as_fd())?)
}

/// Launches the server by running this program again.
///
/// The listening socket becomes standard input, and the handshake standard output: without
/// `unsafe`, a new process cannot get other descriptors.
struct SelfLauncher;

impl Launcher for SelfLauncher {
    fn launch(&self, server: ServerParams) -> io::Result<Box<dyn LaunchedServer>> {
        let ServerParams { args, directory, listener, handshake } = server;
        // Standard error goes to the log of the shim, or nowhere. It must not stay that of `start`,
        // or containerd would wait for it to close.
        let errors = match log::open(&directory) {
            Ok(fifo) => fifo,
            Err(_) => fs::File::options().write(true).open("/dev/null")?,
        };
        // The server inherits the working directory of `start`, which is the bundle. Changing to it
        // again would fail once `start` was killed and the bundle removed.
        let child = Command::new("/proc/self/exe")
            .arg0(env::args_os().next().unwrap_or_default())
            .args(args)
            .stdin(OwnedFd::from(listener))
            .stdout(handshake)
            .stderr(errors)
            .process_group(0)
            .spawn()?;
        Ok(Box::new(ServerProcess(child)))
    }
}

/// A server that runs as a child process.
struct ServerProcess(Child);

impl LaunchedServer for ServerProcess {
    fn end(&mut self, grace: Duration) {
        let Self(child) = self;
        let _ = rustix::process::kill_process(Pid::from_child(child), rustix::process::Signal::TERM);
        let over = Instant::now() + grace;
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < over {
            thread::sleep(END_PAUSE);
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Serves as the process that [`SelfLauncher`] runs.
pub(super) fn serve(shim: &Shim, flags: &Flags) -> Result<(), ServeError> {
    let (listener, handshake) = take_descriptors().map_err(|_| ServeError::NotStarted)?;
    if shim.log_to_containerd
        && let Ok(fifo) = log::open(Path::new("."))
    {
        log::install(fifo, flags);
    }
    raise_oom_score();
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        debug!(%error, "could not become a child subreaper");
    }
    // Linux gives orphans to this thread, so it starts no process itself: see `process::Reaper`.
    thread::scope(|scope| {
        let serving = || serve_on_this_thread(shim, listener, handshake);
        let served = thread::Builder::new().name("server".to_owned()).spawn_scoped(scope, serving);
        let served = served.map_err(ServeError::Thread)?;
        served.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn serve_on_this_thread(shim: &Shim, listener: UnixListener, handshake: UnixStream) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ServeError::Thread)?;
    let served = runtime.block_on(async {
        let signals = signals().map_err(ServeError::Listen)?;
        serve::serve(shim, handshake, listener, signals).await
    });
    // Tasks that still run have exceeded their limits.
    runtime.shutdown_background();
    served
}

/// Takes the listening socket and the handshake from standard input and output, and puts
/// `/dev/null` in their place.
fn take_descriptors() -> io::Result<(UnixListener, UnixStream)> {
    let (input, output) = (io::stdin(), io::stdout());
    if !is_listening()? {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let listener = UnixListener::from(input.as_fd().try_clone_to_owned()?);
    let handshake = UnixStream::from(output.as_fd().try_clone_to_owned()?);
    let null = fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok((listener, handshake))
}

/// Raises the OOM score, so that the kernel kills a shim before the daemon, as Go's shim does. A
/// failure does no harm.
fn raise_oom_score() {
    const FILE: &str = "/proc/self/oom_score_adj";
    const MOST: i32 = 1000;
    let score = fs::read_to_string(FILE).ok().and_then(|text| text.trim().parse::<i32>().ok());
    if let Some(score) = score.filter(|score| *score < MOST) {
        let _ = fs::write(FILE, (score + 1).to_string());
    }
}

/// Returns a channel that receives the signals of this process.
fn signals() -> io::Result<mpsc::Receiver<ControlSignal>> {
    let (send, receive) = mpsc::channel(1);
    let kinds = [
        (SignalKind::terminate(), ControlSignal::End),
        (SignalKind::interrupt(), ControlSignal::End),
        (SignalKind::user_defined1(), ControlSignal::Diagnose),
    ];
    for (kind, meaning) in kinds {
        let (mut stream, send) = (signal(kind)?, send.clone());
        tokio::spawn(async move { while stream.recv().await.is_some() && send.send(meaning).await.is_ok() {} });
    }
    Ok(receive)
}
