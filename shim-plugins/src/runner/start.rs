//! The action `start`: starts the server of a container, or finds the server of its group, and
//! gives containerd the address.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::bootstrap::{Bootstrap, BootstrapError, MAX_INPUT};
use super::environment::{Environment, LaunchedServer, ServerParams};
use super::flags::Flags;
use super::handshake::{Assignment, HandshakeClient, ServerError};
use super::options::{self, OptionsError};
use super::shim::Shim;
use super::socket::{self, BindOutcome, SocketError};
use super::{group, probe, socket_path};
use crate::plugin::ShimContext;
use crate::process::bundle_file;

/// How long a server may take to end after `start` has failed.
const END_LIMIT: Duration = Duration::from_secs(5);

/// How often to retry if the shim of a group closes the connection, and the pause between.
const GROUP_TRIES: u32 = 50;
const GROUP_PAUSE: Duration = Duration::from_millis(100);

/// The file in the bundle from which containerd 1.x reads the address after its restart.
pub(super) const ADDRESS_FILE: &str = "address";

/// Why `start` failed. No process and no socket is left behind.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Standard input could not be read.
    #[error("could not read standard input")]
    Read(#[source] io::Error),

    /// The input from containerd could not be parsed.
    #[error("could not parse the input from containerd")]
    Bootstrap(#[from] BootstrapError),

    /// The configuration of the plugins could not be read.
    #[error("could not read the configuration of the plugins")]
    Options(#[from] OptionsError),

    /// The socket could not be created.
    #[error("could not create the socket of the shim")]
    Socket(#[from] SocketError),

    /// The server process could not be started.
    #[error("could not start the server")]
    Launch(#[source] io::Error),

    /// The server does not serve.
    #[error("could not serve")]
    Server(#[from] ServerError),

    /// A shim listens on the socket of the group, and does not answer.
    #[error("the shim of the group does not answer on {}", path.display())]
    SilentGroup {
        /// The socket.
        path: PathBuf,
        /// The error of the connection.
        source: io::Error,
    },

    /// The address could not be stored in the bundle.
    #[error("could not write {}", path.display())]
    WriteAddress {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },

    /// Containerd could not be answered.
    #[error("could not answer containerd")]
    Answer(#[source] io::Error),
}

/// Starts the server of a container, or finds the server of its group, and answers containerd.
pub(super) fn start(shim: &Shim, flags: &Flags, environment: &mut Environment) -> Result<(), StartError> {
    let mut input = Vec::new();
    let limit = u64::try_from(MAX_INPUT).unwrap_or(u64::MAX) + 1;
    environment.input.by_ref().take(limit).read_to_end(&mut input).map_err(StartError::Read)?;
    let bootstrap = Bootstrap::parse(&input, &flags.id, &flags.namespace)?;
    let configuration = options::configuration(&bootstrap.extensions)?;

    let context = context(flags, environment, &bootstrap);
    let dir = bootstrap.socket_dir.as_ref().map_or(environment.socket_dir.clone(), PathBuf::from);
    let group = group::group(&context.bundle, &context.id);
    let path = socket_path::path(&dir, &context.grpc_address, &context.namespace, &group);
    let assignment = Assignment { context, configuration };
    // Before there is a socket: if this process is killed, `delete` must find the socket.
    let stored = StoredAddress::store(&assignment.context.bundle, &socket_path::address(&path))?;
    let answer = |environment: &mut Environment| {
        let answer = bootstrap.dialect.answer(&socket_path::address(&path), &shim.mounts);
        let output = &mut environment.output;
        output.write_all(&answer).and_then(|()| output.flush()).map_err(StartError::Answer)
    };
    let mut tries = GROUP_TRIES;
    loop {
        match socket::bind(&path)? {
            BindOutcome::New(file, listener) => {
                // On failure, dropping `file` removes the socket.
                let (mut server, handshake) = launch(flags, environment, &assignment, listener)?;
                let limit = environment.ready_limit;
                let answered = serve(handshake, &assignment, limit, || answer(environment));
                if answered.is_err() {
                    server.end(END_LIMIT);
                }
                answered?;
                file.leave();
                stored.leave();
                return Ok(());
            }
            BindOutcome::Existing(stream) => match probe::is_served(stream, environment.ready_limit) {
                Ok(true) => {
                    answer(environment)?;
                    stored.leave();
                    return Ok(());
                }
                // That shim was about to end or to fail: its socket is free now, or soon.
                Ok(false) if tries > 0 => {
                    tries -= 1;
                    std::thread::sleep(GROUP_PAUSE);
                }
                Ok(false) => {
                    let source = io::ErrorKind::ConnectionReset.into();
                    return Err(StartError::SilentGroup { path, source });
                }
                Err(source) => return Err(StartError::SilentGroup { path, source }),
            },
        }
    }
}

/// Returns the context of the shim: the input of `start` takes precedence over flags and variables.
fn context(flags: &Flags, environment: &Environment, bootstrap: &Bootstrap) -> ShimContext {
    let var = |name: &str| environment.vars.get(name).cloned().unwrap_or_default();
    ShimContext {
        id: flags.id.clone(),
        namespace: flags.namespace.clone(),
        bundle: environment.directory.clone(),
        grpc_address: bootstrap.grpc_address.clone().unwrap_or_else(|| flags.address.clone()),
        ttrpc_address: bootstrap.ttrpc_address.clone().unwrap_or_else(|| var("TTRPC_ADDRESS")),
        containerd_version: bootstrap.containerd_version.clone(),
        debug: flags.debug || bootstrap.debug,
    }
}

/// Launches the server process, and returns this end of the handshake.
fn launch(
    flags: &Flags,
    environment: &Environment,
    assignment: &Assignment,
    listener: UnixListener,
) -> Result<(Box<dyn LaunchedServer>, HandshakeClient), StartError> {
    let (ours, theirs) = UnixStream::pair().map_err(StartError::Launch)?;
    // The handshake tells the server what it needs. The arguments are for a reader of `ps`.
    let mut args = Vec::new();
    for (flag, value) in [("-namespace", &flags.namespace), ("-id", &flags.id), ("-address", &flags.address)] {
        args.extend([flag.to_owned(), value.clone()]);
    }
    if assignment.context.debug {
        args.push("-debug".to_owned());
    }
    args.push("serve".to_owned());
    let directory = assignment.context.bundle.clone();
    let server = ServerParams { args, directory, listener, handshake: theirs.into() };
    let launched = environment.launcher.launch(server).map_err(StartError::Launch)?;
    Ok((launched, HandshakeClient::new(ours)))
}

/// Runs the handshake: assigns the server, answers containerd, and confirms that.
fn serve(
    mut handshake: HandshakeClient,
    assignment: &Assignment,
    limit: Duration,
    answer: impl FnOnce() -> Result<(), StartError>,
) -> Result<(), StartError> {
    handshake.assign(assignment, limit)?;
    answer()?;
    handshake.answered().map_err(|error| StartError::Server(ServerError::Communicate(error)))
}

/// The address in the bundle. Dropping it removes the file.
struct StoredAddress<'a>(&'a Path);

impl<'a> StoredAddress<'a> {
    fn store(bundle: &'a Path, address: &str) -> Result<Self, StartError> {
        // The file has the same mode as with Go's shim.
        let written = bundle_file::write(bundle, ADDRESS_FILE, 0o644, address.as_bytes());
        written.map_err(|source| StartError::WriteAddress { path: bundle.join(ADDRESS_FILE), source })?;
        Ok(Self(bundle))
    }

    /// Leaves the file in place, for containerd and for `delete`.
    fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for StoredAddress<'_> {
    fn drop(&mut self) {
        // A file that stays tells nobody anything wrong: nobody listens at the address.
        let _ = fs::remove_file(self.0.join(ADDRESS_FILE));
    }
}
