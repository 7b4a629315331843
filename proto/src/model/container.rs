use std::collections::BTreeMap;

use super::{CdiDevice, Hooks, LinuxContainer, Mount, Resources, Unknown, Unnamed};

/// A container, as plugins see it.
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
    /// Its name in the pod.
    pub name: String,
    /// Where it is in its life.
    pub state: ContainerState,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The command and its arguments.
    pub args: Vec<String>,
    /// The environment, as `NAME=value`.
    pub env: Vec<String>,
    /// What is mounted, in this order.
    pub mounts: Vec<Mount>,
    /// The OCI hooks.
    pub hooks: Option<Hooks>,
    /// What only Linux has.
    pub linux: Option<LinuxContainer>,
    /// The first process of the container; 0 if it does not run.
    pub pid: u32,
    /// The resource limits of the process.
    pub rlimits: Vec<Rlimit>,
    /// When it was created, in nanoseconds since 1970; 0 if it was not.
    pub created_at: i64,
    /// When it was started, in nanoseconds since 1970; 0 if it was not.
    pub started_at: i64,
    /// When it ended, in nanoseconds since 1970; 0 if it did not.
    pub finished_at: i64,
    /// How it ended, once it has.
    pub exit_code: i32,
    /// Why it is in its state, in one word.
    pub status_reason: String,
    /// Why it is in its state, for people.
    pub status_message: String,
    /// The CDI devices that were asked for.
    pub cdi_devices: Vec<CdiDevice>,
    /// Who it runs as.
    pub user: Option<User>,
    /// The image it was made from.
    pub image: Option<Image>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl Container {
    /// Returns the value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// Returns the value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    /// Returns the value of an environment variable, the last one if it is set several times.
    pub fn env(&self, name: &str) -> Option<&str> {
        self.env.iter().rev().find_map(|variable| {
            let (key, value) = variable.split_once('=')?;
            (key == name).then_some(value)
        })
    }

    /// What it may use, made if there is nothing said of it.
    pub fn resources_mut(&mut self) -> &mut Resources {
        self.linux.get_or_insert_default().resources.get_or_insert_default()
    }
}

/// Where a [`Container`] is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ContainerState {
    /// The runtime does not say.
    #[default]
    Unknown,
    /// It exists and was not started.
    Created,
    /// It was started, and is frozen.
    Paused,
    /// It was started.
    Running,
    /// It has ended.
    Stopped,
    /// A state that we do not know yet.
    Unnamed(Unnamed<Self>),
}

/// The image that a [`Container`] was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The reference by which it was asked for.
    pub name: String,
    /// The digest of its index or manifest.
    pub digest: String,
    /// The digest of its configuration.
    pub config_digest: String,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

/// Who a [`Container`] runs as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The user.
    pub uid: u32,
    /// The first group.
    pub gid: u32,
    /// The other groups.
    pub additional_gids: Vec<u32>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

/// A resource limit of a container's process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rlimit {
    /// What is limited, such as `RLIMIT_NOFILE`.
    pub kind: String,
    /// The limit that the process may raise its soft limit to.
    pub hard: u64,
    /// The limit that holds.
    pub soft: u64,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl Rlimit {
    /// A limit that holds (`soft`), and up to where the process may raise it (`hard`), in this order.
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
