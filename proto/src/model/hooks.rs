//! OCI hooks.

use super::Unknown;

/// The OCI hooks of a container, by the time at which they run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Run before the process starts. OCI deprecates these for the next three kinds.
    pub prestart: Vec<Hook>,
    /// Run while the container is created, in the namespaces of the runtime.
    pub create_runtime: Vec<Hook>,
    /// Run while the container is created, in the namespaces of the container.
    pub create_container: Vec<Hook>,
    /// Run before the process starts, in the namespaces of the container.
    pub start_container: Vec<Hook>,
    /// Run after the process has started.
    pub poststart: Vec<Hook>,
    /// Run after the container is deleted.
    pub poststop: Vec<Hook>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

/// An OCI hook: a program that the runtime runs at a certain time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hook {
    /// The path of the program.
    pub path: String,
    /// The arguments of the program. The first is its name.
    pub args: Vec<String>,
    /// The environment variables of the program, as `NAME=value`.
    pub env: Vec<String>,
    /// The time after which the program is killed, in seconds.
    pub timeout: Option<i64>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl Hook {
    /// Creates a hook that runs this program. The first argument is the name of the program.
    pub fn new(path: impl Into<String>, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { path: path.into(), args: args.into_iter().map(Into::into).collect(), ..Self::default() }
    }
}
