//! The reports of a shim about itself: the flags `-v` and `-info`, and the action `plugins`.

use std::io::{self, Write as _};

use containerd_shim_protos::types::introspection::{RuntimeInfo, RuntimeVersion};
use protobuf::Message as _;

use super::builtin::builtin_plugins;
use super::environment::Environment;
use super::shim::Shim;
use crate::graph::{Graph, Problems};
use crate::plugin::LoadOutcome;
use crate::process::Shutdown;

/// The annotation in which daemons before 2.4 look for the mount types that a shim performs itself.
pub(crate) const ALLOW_MOUNTS: &str = "containerd.io/runtime-allow-mounts";

/// Writes the name and the version of the shim.
pub(super) fn version(shim: &Shim, environment: &mut Environment) -> io::Result<()> {
    let Shim { name, version, revision, .. } = shim;
    let program = name.as_str();
    write!(environment.output, "{program}:\n  Version:  {version}\n  Revision: {revision}\n")?;
    environment.output.flush()
}

/// The command line of a shim, for people.
const USAGE: &str = "
This is a shim for containerd, which runs it for each container. People may run:
  plugins ls     lists the plugins of the shim in the order of loading
  plugins graph  draws the plugins for Graphviz
  -v             shows the version
  help           shows this text

Containerd runs, in the bundle of a container:
  -namespace NAME -id ID -address SOCKET [-debug] start
  -namespace NAME -id ID -address SOCKET -bundle DIRECTORY delete
  -info
";

/// Writes the version of the shim, and how it is used.
pub(super) fn usage(shim: &Shim, environment: &mut Environment) -> io::Result<()> {
    version(shim, environment)?;
    environment.output.write_all(USAGE.as_bytes())?;
    environment.output.flush()
}

/// Writes the encoded `RuntimeInfo` that containerd reads.
pub(super) fn info(shim: &Shim, environment: &mut Environment) -> io::Result<()> {
    let mut version = RuntimeVersion::new();
    shim.version.clone_into(&mut version.version);
    shim.revision.clone_into(&mut version.revision);
    let mut info = RuntimeInfo::new();
    shim.name.clone_into(&mut info.name);
    info.version = Some(version).into();
    if !shim.mounts.types.is_empty() {
        info.annotations.insert(ALLOW_MOUNTS.to_owned(), shim.mounts.types.join(","));
    }
    let answer = info.write_to_bytes().map_err(io::Error::other)?;
    environment.output.write_all(&answer)?;
    environment.output.flush()
}

/// Returns the graph of all plugins, including the built-in plugins.
pub(super) fn graph(shim: &Shim) -> Result<Graph, Problems> {
    let mut registry = builtin_plugins(&Shutdown::default(), &shim.clock);
    registry.extend(shim.registry.plugins.iter().cloned());
    registry.graph(&shim.configuration)
}

/// Formats the table of plugins before any plugin is loaded.
pub(super) fn table(graph: &Graph) -> String {
    let status =
        |index| if graph.is_enabled(index) { "registered".to_owned() } else { LoadOutcome::Disabled.to_string() };
    graph.table(status)
}
