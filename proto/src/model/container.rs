//! Containers, with their state, image, user and process limits.

use std::collections::BTreeMap;

use super::{CdiDevice, Hooks, LinuxContainer, Mount, Resources, Unknown, Unnamed};

/// A container as plugins see it (`Container` on the wire).
///
/// ```
/// use nri_proto::{Container, ContainerState, api};
///
/// let container = Container {
///     id: "9a27".to_owned(),
///     pod_id: "4f1c".to_owned(),
///     state: ContainerState::Running,
///     env: vec!["PATH=/bin".to_owned(), "DEBUG=".to_owned()],
///     ..Container::default()
/// };
/// assert_eq!(container.env("PATH"), Some("/bin"));
/// assert_eq!(container.env("DEBUG"), Some(""));
/// assert_eq!(container.env("HOME"), None);
///
/// let message = api::Container::from(container.clone());
/// assert_eq!(Container::from(message), container);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// The runtime's id of the container.
    pub id: String,
    /// The id of its pod (`pod_sandbox_id` on the wire).
    pub pod_id: String,
    /// The name of the container, unique in its pod.
    pub name: String,
    /// The state of the container.
    pub state: ContainerState,
    /// The labels of the container.
    pub labels: BTreeMap<String, String>,
    /// The annotations of the container.
    pub annotations: BTreeMap<String, String>,
    /// The command and its arguments.
    pub args: Vec<String>,
    /// The environment variables, as `NAME=value`.
    pub env: Vec<String>,
    /// The mounts, in the order in which they are mounted.
    pub mounts: Vec<Mount>,
    /// The OCI hooks.
    pub hooks: Option<Hooks>,
    /// The Linux-specific part.
    pub linux: Option<LinuxContainer>,
    /// The process id of the first process. 0 if the container does not run.
    pub pid: u32,
    /// The resource limits of the process.
    pub rlimits: Vec<Rlimit>,
    /// The time of creation, in nanoseconds since 1970. 0 if not created yet.
    pub created_at: i64,
    /// The time of the start, in nanoseconds since 1970. 0 if not started yet.
    pub started_at: i64,
    /// The time of the exit, in nanoseconds since 1970. 0 if not exited yet.
    pub finished_at: i64,
    /// The exit code of the first process, after the exit.
    pub exit_code: i32,
    /// The reason for the state of the container, as one word.
    pub status_reason: String,
    /// The reason for the state of the container, as a message for people.
    pub status_message: String,
    /// The CDI devices that were requested for the container.
    pub cdi_devices: Vec<CdiDevice>,
    /// The user and groups of the process.
    pub user: Option<User>,
    /// The image of the container.
    pub image: Option<Image>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl Container {
    /// Returns the value of an annotation, by its key.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// Returns the value of a label, by its key.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    /// Returns the value of an environment variable. If it is set several times, the last value.
    pub fn env(&self, name: &str) -> Option<&str> {
        self.env.iter().rev().find_map(|variable| {
            let (key, value) = variable.split_once('=')?;
            (key == name).then_some(value)
        })
    }

    /// Returns the resources of the container, which are created if missing.
    pub fn resources_mut(&mut self) -> &mut Resources {
        self.linux.get_or_insert_default().resources.get_or_insert_default()
    }
}

/// The state of a [`Container`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ContainerState {
    /// The runtime does not report the state.
    #[default]
    Unknown,
    /// The container was created, and not started.
    Created,
    /// The container was started, and its processes are frozen.
    Paused,
    /// The container was started, and runs.
    Running,
    /// The container has exited.
    Stopped,
    /// A state that this version of the protocol does not know.
    Unnamed(Unnamed<Self>),
}

/// The image of a [`Container`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The reference by which the image was requested.
    pub name: String,
    /// The digest of the index or manifest of the image.
    pub digest: String,
    /// The digest of the configuration of the image.
    pub config_digest: String,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

/// The user and groups of the process of a [`Container`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The user id.
    pub uid: u32,
    /// The primary group id.
    pub gid: u32,
    /// The supplementary group ids.
    pub additional_gids: Vec<u32>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

/// A resource limit of a container's process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rlimit {
    /// The limited resource, such as `RLIMIT_NOFILE`.
    pub kind: String,
    /// The hard limit, up to which the process can raise the soft limit.
    pub hard: u64,
    /// The soft limit, which is enforced.
    pub soft: u64,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl Rlimit {
    /// Creates a limit. The parameters are the soft limit and the hard limit, in this order.
    pub fn new(kind: impl Into<String>, soft: u64, hard: u64) -> Self {
        Self { kind: kind.into(), hard, soft, unknown: Unknown::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(env: &[&str], name: &str, expected: Option<&str>) {
        let env = env.iter().map(|&variable| variable.to_owned()).collect();
        assert_eq!(Container { env, ..Container::default() }.env(name), expected);
    }

    #[test]
    fn the_last_value_of_a_variable_wins() {
        check(&["A=1", "B=2", "A=3"], "A", Some("3"));
    }

    #[test]
    fn a_name_ends_at_the_first_equals_sign() {
        check(&["A=B=C"], "A", Some("B=C"));
        check(&["A=B=C"], "A=B", None);
    }

    #[test]
    fn an_entry_without_an_equals_sign_is_no_variable() {
        check(&["A"], "A", None);
    }
}
