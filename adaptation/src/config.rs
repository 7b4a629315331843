//! The configuration of an adaptation.
//!
//! The author of a runtime writes a [`Config`] as a struct literal. An operator writes a file,
//! which [`Config::load`] reads:
//!
//! | file | read by |
//! |---|---|
//! | a table of NRI settings, with containerd's names | [`Config::from_toml`] |
//! | containerd's `config.toml` | [`Config::from_toml`]; with its imports, [`Config::load`] |
//! | CRI-O's `crio.conf`, or a file of `crio.conf.d` | [`Config::from_toml`], [`Config::from_crio`] |
//! | `nri.conf` of NRI up to 0.2 | [`Config::from_nri_conf`]; if TOML, [`Config::from_toml`] |
//!
//! - `policy`: the settings of plugins. `requirements.rs`: the plugins that a pod requires.
//!   `snapshot.rs`: the configuration in effect at one moment.
//! - `settings`: reads single values. `file.rs`: reads the configuration table. `upstream.rs` and
//!   `validator.rs`: the settings that upstream has.
//! - `containerd.rs`, `crio.rs`, `nri_conf.rs` and `imports.rs`: find the configuration table in
//!   files of other formats. `load.rs`: chooses the format of a file.
//! - `error.rs` and `lines.rs`: the problems of a file and their lines. `restart.rs`: the settings
//!   that cannot be reloaded.
//!
//! A new configuration can be [reloaded](crate::Adaptation::reload) while the adaptation runs,
//! except for the changes that [need a restart](Config::changes_that_need_a_restart).

pub mod policy;
pub(crate) mod requirements;
pub(crate) mod settings;
pub(crate) mod snapshot;

mod containerd;
mod crio;
mod error;
mod file;
mod imports;
mod lines;
mod load;
mod nri_conf;
mod restart;
#[cfg(test)]
mod tests;
mod upstream;
mod validator;

use std::path::PathBuf;
use std::time::Duration;

use nri_proto::{defaults, version};

pub use self::error::ConfigError;
pub use self::load::LoadError;
pub use self::validator::DefaultValidator;
use crate::config::policy::{Exemptions, Namespaces, Policies};
pub use crate::config::settings::{Fault, Problem};

/// The configuration of an adaptation.
///
/// ```
/// use std::time::Duration;
/// use nri_adaptation::config::Config;
/// use nri_adaptation::policy::{Policies, PolicyRules};
///
/// let config = Config {
///     runtime_name: "crid".to_owned(),
///     runtime_version: "0.1.0".to_owned(),
///     socket: None,
///     policies: Policies {
///         defaults: PolicyRules { request_timeout: Some(Duration::from_secs(1)), ..PolicyRules::default() },
///         plugins: [("topology".parse()?, PolicyRules { required: Some(true), ..PolicyRules::default() })].into(),
///         ..Policies::default()
///     },
///     ..Config::default()
/// };
/// assert_eq!(config.registration_timeout, Duration::from_secs(5));
/// # Ok::<(), nri_adaptation::policy::PluginKeyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Whether the operator disables plugins altogether. The runtime checks this setting: if true,
    /// the runtime is to start no adaptation.
    pub disable: bool,
    /// The name of the runtime, which plugins are told.
    pub runtime_name: String,
    /// The version of the runtime, which plugins are told.
    pub runtime_version: String,
    /// The version of NRI that plugins are told the runtime speaks.
    pub nri_version: String,
    /// The path of the socket on which plugins connect. `None`: no plugin can connect.
    pub socket: Option<PathBuf>,
    /// The directory of the plugins to launch. `None`: no plugin is launched. A program is launched
    /// only if nobody but root and the runtime's own user can change the program or the path to it.
    pub plugin_path: Option<PathBuf>,
    /// The directory of the configuration files of launched plugins. Nobody but root and the
    /// runtime's own user may be able to change the directory or the files.
    pub plugin_config_path: Option<PathBuf>,
    /// How long a plugin may take to register after it has connected.
    pub registration_timeout: Duration,
    /// The users whose processes may connect. The policy setting
    /// [`uids`](crate::config::policy::Policy::uids) restricts which of these users may connect as
    /// a particular plugin.
    pub allowed_uids: Vec<u32>,
    /// The group whose processes can reach the socket: the socket gets this group and mode 0660,
    /// and its directory gets the group and mode 0750. `None`: the socket is accessible to the
    /// runtime's own user and root alone. The group only opens the way to the socket. Which
    /// processes may connect is decided by [`allowed_uids`](Config::allowed_uids).
    pub socket_gid: Option<u32>,
    /// How many connections may be open that have not become plugins yet. Each of the
    /// [`allowed_uids`](Config::allowed_uids) has an equal share, of at least one connection, so
    /// that the silent peers of one user do not keep out the plugins of another user.
    pub max_unregistered: usize,
    /// How many plugins there may be. One place is reserved for each absent plugin that is
    /// [required](crate::config::policy::Policy::required) or a
    /// [validator](crate::config::policy::Policy::validator), so that other plugins do not keep
    /// that plugin out.
    pub max_plugins: usize,
    /// How long plugins may take to end when the runtime stops.
    pub shutdown_grace: Duration,
    /// How long a call to the runtime's own [`Source`](crate::Source) may take. A call that takes
    /// longer is abandoned.
    pub source_timeout: Duration,
    /// How long an [operation](crate::Operation) may be open. An operation that is open for longer
    /// is reported as overdue, and other requests no longer wait for it.
    pub operation_timeout: Duration,
    /// How long a request may wait, in all, for plugins that do not answer it. The time that
    /// answering plugins take is not counted, and a
    /// [required](crate::config::policy::Policy::required) plugin always gets its own request
    /// timeout. `None` and zero mean three times the default request timeout. With that default, a
    /// plugin whose own request timeout is longer may use all of that timeout, until some plugin
    /// has failed to answer the request.
    pub request_budget: Option<Duration>,
    /// How many bytes the [ledger](crate::ledger) may take. The entry of a reply takes about 500
    /// bytes. Each change in the reply counts as its size on the wire, and as a little more for the
    /// change and for each short part of its values, so that reading the ledger takes at most four
    /// times this size.
    pub history_bytes: usize,
    /// The settings of plugins: timeouts, permissions, and what happens if a plugin is slow, silent
    /// or absent.
    pub policies: Policies,
    /// The Kubernetes namespaces whose pods run even if a
    /// [required](crate::config::policy::Policy::required) plugin is missing, so that the pod of a
    /// required plugin can itself start. The pods of the node's own services, and of most plugins,
    /// are in these namespaces.
    pub required_exempt_namespaces: Namespaces,
    /// The annotation with which a pod tolerates the absence of a plugin that is
    /// [required](crate::config::policy::Policy::required) or a
    /// [validator](crate::config::policy::Policy::validator). Everybody who may create pods may set
    /// the annotation. So this key is empty by default, and no pod tolerates an absence. The
    /// annotation does not affect a plugin that is connected: requests wait for that plugin, and
    /// its verdict counts.
    ///
    /// The annotation of the default validator is a separate setting,
    /// [`tolerate_missing_plugins_annotation`][own].
    ///
    /// [own]: DefaultValidator::tolerate_missing_plugins_annotation
    pub required_tolerate_annotation: String,
    /// The settings of upstream's default validator.
    pub default_validator: Option<DefaultValidator>,
}

impl Default for Config {
    /// Returns upstream's defaults for the settings that upstream has. Processes of root and of the
    /// runtime's own user may connect.
    fn default() -> Self {
        let own = rustix::process::geteuid().as_raw();
        Self {
            disable: false,
            runtime_name: "unknown".to_owned(),
            runtime_version: "unknown".to_owned(),
            nri_version: version::NRI.to_owned(),
            socket: Some(defaults::SOCKET_PATH.into()),
            plugin_path: Some(defaults::PLUGIN_PATH.into()),
            plugin_config_path: Some(defaults::PLUGIN_CONFIG_PATH.into()),
            registration_timeout: defaults::REGISTRATION_TIMEOUT,
            allowed_uids: if own == 0 { vec![0] } else { vec![0, own] },
            socket_gid: None,
            max_unregistered: 64,
            max_plugins: 64,
            shutdown_grace: Duration::from_secs(1),
            source_timeout: Duration::from_secs(30),
            operation_timeout: Duration::from_secs(300),
            request_budget: None,
            history_bytes: 384 << 10,
            policies: Policies::default(),
            required_exempt_namespaces: Namespaces::system(),
            required_tolerate_annotation: String::new(),
            default_validator: None,
        }
    }
}

/// The default request budget, as a number of request timeouts.
pub(crate) const BUDGETED_TIMEOUTS: u32 = 3;

/// How long a request may wait, in all, for plugins that do not answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestBudget {
    /// The operator sets the budget.
    Set(Duration),
    /// The default budget: [`BUDGETED_TIMEOUTS`] times this duration, which is the default request
    /// timeout.
    Timeouts(Duration),
}

impl Config {
    /// Returns how long a request may wait, in all, for plugins that do not answer it.
    pub(crate) fn request_budget(&self) -> RequestBudget {
        let timeout = self.policies.defaults.request_timeout.unwrap_or(defaults::REQUEST_TIMEOUT);
        let set = self.request_budget.filter(|budget| !budget.is_zero());
        set.map_or(RequestBudget::Timeouts(timeout), RequestBudget::Set)
    }

    /// Returns the exemptions: which pods may run although a required plugin is missing.
    #[must_use]
    pub fn exemptions(&self) -> Exemptions {
        Exemptions {
            namespaces: self.required_exempt_namespaces.clone(),
            annotation: self.required_tolerate_annotation.clone(),
        }
    }
}
