//! Everything that can be set, for whoever runs an adaptation.
//!
//! A runtime's author writes a [`Config`] as a struct literal. An operator writes a file, which
//! [`Config::load`] reads:
//!
//! | file | read by |
//! |---|---|
//! | a table of our own, with containerd's names | [`Config::from_toml`] |
//! | containerd's `config.toml` | [`Config::from_toml`]; with what it imports, [`Config::load`] |
//! | CRI-O's `crio.conf`, or a file of `crio.conf.d` | [`Config::from_toml`], [`Config::from_crio`] |
//! | `/etc/nri/nri.conf`, which NRI had up to 0.2 | [`Config::from_nri_conf`]; with policies it is a table of our own |
//!
//! - `policy` is what holds for plugins, `requirements.rs` which of them must be there;
//!   `snapshot.rs` is all of it at one moment.
//! - `settings` reads single values, `upstream.rs` and `validator.rs` are upstream's; `file.rs`
//!   reads a table.
//! - `containerd.rs`, `crio.rs`, `nri_conf.rs` and `imports.rs` find that table in files of others;
//!   `load.rs` chooses among them.
//! - `error.rs` and `lines.rs` say what is wrong and on which line; `restart.rs` says what cannot
//!   be reloaded.
//!
//! What differs from one that is in use can be [reloaded](crate::Adaptation::reload), or
//! [needs a restart](Config::changes_that_need_a_restart).

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

/// How an adaptation is set up.
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
    /// Whether the operator wants no plugins at all. Then there is nothing to start.
    pub disable: bool,
    /// The name of the runtime, for plugins to know.
    pub runtime_name: String,
    /// The version of the runtime, likewise.
    pub runtime_version: String,
    /// The version of NRI that plugins are told the runtime speaks.
    pub nri_version: String,
    /// Where plugins connect. Without it none can.
    pub socket: Option<PathBuf>,
    /// The directory of the plugins to launch. Without it none are. A program is launched only if
    /// root and the runtime's own user alone can change it, and all that leads to it.
    pub plugin_path: Option<PathBuf>,
    /// The directory of their configuration, which nobody else may change either.
    pub plugin_config_path: Option<PathBuf>,
    /// How long a plugin that has connected may take to register.
    pub registration_timeout: Duration,
    /// The users whose processes may connect. [`uids`](crate::config::policy::Policy::uids) of a
    /// policy says which of them may connect as a plugin of a name.
    pub allowed_uids: Vec<u32>,
    /// How many connections may be open that are not plugins yet. Each of the
    /// [`allowed_uids`](Config::allowed_uids) has an equal share, of at least one, so the silent
    /// peers of one user do not keep out the plugins of another.
    pub max_unregistered: usize,
    /// How many plugins there may be. Of these places one is kept for each plugin that is
    /// [required](crate::config::policy::Policy::required) or a
    /// [validator](crate::config::policy::Policy::validator) and is not there, so the others do not
    /// keep it out.
    pub max_plugins: usize,
    /// How long plugins may take to end when the runtime does.
    pub shutdown_grace: Duration,
    /// How long the runtime's own [`Source`](crate::Source) may take. What it has not done by then
    /// is given up.
    pub source_timeout: Duration,
    /// How long an [operation](crate::Operation) may be open. One that still is then is reported,
    /// and nobody waits for it any more.
    pub operation_timeout: Duration,
    /// How long a request may wait, in all, for plugins that do not answer it. Time in which
    /// plugins answer is not counted, and a [required](crate::config::policy::Policy::required)
    /// plugin is always given its own request timeout. `None` and zero are three times the request
    /// timeout of all plugins. A plugin with a longer one of its own may take that until a plugin
    /// has not answered.
    pub request_budget: Option<Duration>,
    /// How many bytes the [ledger](crate::ledger) may take. What a reply changes takes about 500 of
    /// them, and each change as much as on the wire, or a quarter of what it takes when it is read.
    /// So what is read takes four times as many at most.
    pub history_bytes: usize,
    /// What becomes of plugins that are slow, silent or absent.
    pub policies: Policies,
    /// The namespaces of Kubernetes in which pods run without what is
    /// [required](crate::config::policy::Policy::required), so that the pod of a required plugin
    /// can start. A node's own pods are there, and most plugins.
    pub required_exempt_namespaces: Namespaces,
    /// The annotation with which a pod tolerates that a plugin which is
    /// [required](crate::config::policy::Policy::required) or a
    /// [validator](crate::config::policy::Policy::validator) is absent. Whoever may create pods may
    /// write it, so it is empty by default, and no pod tolerates anything. A plugin that is
    /// connected is waited for, and its verdict counts, whatever a pod says.
    ///
    /// The default validator's
    /// [`tolerate_missing_plugins_annotation`](DefaultValidator::tolerate_missing_plugins_annotation)
    /// is a setting of its own.
    pub required_tolerate_annotation: String,
    /// The settings of upstream's default validator.
    pub default_validator: Option<DefaultValidator>,
}

impl Default for Config {
    /// Upstream's settings where it has them. Processes of root and of our own user may connect.
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

/// How many request timeouts a request may wait for plugins that do not answer, unless the operator
/// says otherwise.
pub(crate) const BUDGETED_TIMEOUTS: u32 = 3;

/// How long a request may wait, in all, for plugins that do not answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestBudget {
    /// As the operator says.
    Set(Duration),
    /// [`BUDGETED_TIMEOUTS`] times the request timeout that holds for all plugins, which is this.
    Timeouts(Duration),
}

impl Config {
    /// How long a request may wait, in all, for plugins that do not answer it.
    pub(crate) fn request_budget(&self) -> RequestBudget {
        let timeout = self.policies.defaults.request_timeout.unwrap_or(defaults::REQUEST_TIMEOUT);
        let set = self.request_budget.filter(|budget| !budget.is_zero());
        set.map_or(RequestBudget::Timeouts(timeout), RequestBudget::Set)
    }

    /// Returns the pods that may run without the plugins that are required.
    #[must_use]
    pub fn exemptions(&self) -> Exemptions {
        Exemptions {
            namespaces: self.required_exempt_namespaces.clone(),
            annotation: self.required_tolerate_annotation.clone(),
        }
    }
}
