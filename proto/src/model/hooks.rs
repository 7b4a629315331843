use super::Unknown;

/// OCI hooks, by the moment at which they run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Before the process starts; deprecated by OCI for the next three.
    pub prestart: Vec<Hook>,
    /// While the container is created, in the runtime's namespaces.
    pub create_runtime: Vec<Hook>,
    /// While the container is created, in its namespaces.
    pub create_container: Vec<Hook>,
    /// Before the process starts, in the container's namespaces.
    pub start_container: Vec<Hook>,
    /// After the process has started.
    pub poststart: Vec<Hook>,
    /// After the container is deleted.
    pub poststop: Vec<Hook>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

/// One OCI hook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hook {
    /// The program.
    pub path: String,
    /// Its arguments, the first of which is its name.
    pub args: Vec<String>,
    /// Its environment, as `NAME=value`.
    pub env: Vec<String>,
    /// How long it may take, in seconds.
    pub timeout: Option<i64>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl Hook {
    /// A hook that runs this program. The first argument is its name.
    pub fn new(path: impl Into<String>, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { path: path.into(), args: args.into_iter().map(Into::into).collect(), ..Self::default() }
    }
}
