//! Reads a configuration file in TOML.

use std::time::Duration;

use serde::Deserialize;
use serde::de::Error as _;
use toml::{Table, Value};

use super::Config;
use super::ConfigError;
use super::DefaultValidator;
use super::containerd;
use super::crio;
use super::lines::TomlLines;
use super::upstream::{Dialect, REQUEST_TIMEOUT, Upstream};
use crate::config::policy::{Contradiction, PluginKey, Policies, PolicyRules, Uids};
use crate::config::settings::{Fault, KeyPath, Problem, Section};

impl Config {
    /// Reads a configuration from TOML.
    ///
    /// The file has the keys of containerd's NRI section, and may have the additional keys of this
    /// crate:
    ///
    /// ```
    /// use nri_adaptation::config::Config;
    ///
    /// let config = Config {
    ///     runtime_name: "crid".to_owned(),
    ///     ..Config::from_toml(r#"
    ///         ## Containerd's.
    ///         disable = false
    ///         disable_connections = false
    ///         socket_path = "/var/run/nri/nri.sock"
    ///         plugin_path = "/opt/nri/plugins"
    ///         plugin_config_path = "/etc/nri/conf.d"
    ///         plugin_registration_timeout = "5s"
    ///         plugin_request_timeout = "2s"
    ///
    ///         ## Ours.
    ///         allowed_uids = [0]
    ///         socket_gid = 991             # the group that reaches the socket; without it, root alone
    ///         max_unregistered = 64        # each of allowed_uids has an equal share
    ///         unnamed = "admit"            # or "refuse": only plugins that have a table
    ///         max_plugins = 64
    ///         shutdown_grace = "1s"
    ///         source_timeout = "30s"
    ///         operation_timeout = "5m"
    ///         request_budget = "6s"        # without it, 3 times the request timeout for all plugins
    ///         history_bytes = 524288
    ///         required_exempt_namespaces = ["kube-system"]
    ///         required_tolerate_annotation = ""  # no pod may say that it does without a required plugin
    ///
    ///         ## What holds for all plugins. `plugin_request_timeout` is its `request_timeout`.
    ///         [plugin_defaults]
    ///         on_timeout = "skip"          # or "fail"
    ///         strikes = 3
    ///         keep_connected = false
    ///         declarations = "honour"      # or "ignore"
    ///         sync_timeout = "30s"
    ///         join_timeout = "10s"
    ///         lane_timeout = "10s"
    ///         catch_up_timeout = "10s"
    ///         first_pause = "10s"
    ///         longest_pause = "5m"
    ///         concurrency = "serial"       # or "per-pod"
    ///         mode = "enforce"             # or "shadow": asked and recorded, not applied
    ///
    ///         ## What holds for plugins of this name, and for one of this index and name.
    ///         [plugins.topology]
    ///         required = true
    ///         [plugins.10-logger]
    ///         request_timeout = "500ms"
    ///         uids = [0]                   # or "any" of allowed_uids: whose processes may connect as this plugin
    ///         namespaces = ["shop", "kube-*"]
    ///         [plugins.10-logger.allow]
    ///         changes = ["Env", "Resources"] # fields; also "Updates" of other containers and "Evictions"
    ///         events = ["RunPodSandbox", "CreateContainer"]
    ///         [plugins.guard]
    ///         validator = true             # without its verdict no container is created
    ///         origin = "launched"          # or "connected", "built-in", "any"
    ///
    ///         ## Containerd's again.
    ///         [default_validator]
    ///         enable = true
    ///     "#)?
    /// };
    /// assert!(config.policies.required().eq([&"topology".parse()?]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The same keys may also be in containerd's own `config.toml`, in the table
    /// `[plugins."io.containerd.nri.v1.nri"]` (for example
    /// `[plugins."io.containerd.nri.v1.nri".plugins.topology]`). The rest of that file is only
    /// checked for NRI keys that belong in the table, and for the NRI plugin among the
    /// `disabled_plugins`. A file counts as containerd's if it has a key `version`, `imports` or
    /// `disabled_plugins`, or a table of `plugins` whose name begins with `io.containerd.` This
    /// function does not follow imports: [`Config::load`] does, because it knows the path of the
    /// file.
    ///
    /// A file counts as CRI-O's if it has a table `crio`, or one of CRI-O's keys for NRI at its
    /// root. See [`Config::from_crio`] for such files and for CRI-O's names.
    ///
    /// Durations are in Go's format. As with containerd, an empty path counts as not set, and so
    /// does a zero value of containerd's own timeouts. Names, versions and settings that are not
    /// set are those of [`Config::default`].
    ///
    /// # Errors
    ///
    /// Returns all problems of the file, each with its line. An unknown key is a problem, too.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        Self::from_text(text, read)
    }

    /// Parses TOML and reads the table with `read`, which returns the problems that it finds. Adds
    /// the line of each problem.
    pub(super) fn from_text(
        text: &str,
        read: impl FnOnce(Table) -> (Self, Vec<(KeyPath, Fault)>),
    ) -> Result<Self, ConfigError> {
        let (lines, errors) = TomlLines::of(text);
        let syntax = |error: &toml::de::Error| Problem {
            line: error.span().map(|span| lines.at(span.start)),
            place: String::new(),
            fault: Fault::Syntax(error.message().to_owned()),
        };
        let table = toml::from_str(text).map_err(|error| {
            let errors = if errors.is_empty() { vec![error] } else { errors };
            ConfigError::new(errors.iter().map(syntax).collect())
        })?;
        let (config, problems) = read(table);
        let located = |(place, fault)| Problem { line: lines.find(&place), ..Problem::new((place, fault)) };
        config.unless(problems.into_iter().map(located).collect())
    }

    pub(super) fn unless(self, problems: Vec<Problem>) -> Result<Self, ConfigError> {
        if problems.is_empty() { Ok(self) } else { Err(ConfigError::new(problems)) }
    }
}

/// Reads the table as [`Config::from_toml`] does, so that a runtime can have the table in a file of
/// its own format.
impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (config, problems) = read(Table::deserialize(deserializer)?);
        config.unless(problems.into_iter().map(Problem::new).collect()).map_err(D::Error::custom)
    }
}

/// Reads a table, in the format that its keys show. Returns the configuration and all problems.
fn read(table: Table) -> (Config, Vec<(KeyPath, Fault)>) {
    let mut problems = Vec::new();
    let config = if crio::owns(&table) {
        crio::read(table, &mut problems)
    } else if containerd::owns(&table) {
        containerd::read(table, &mut problems)
    } else {
        Config::read(&mut Section::new(KeyPath::default(), table, &mut problems), Dialect::Containerd)
    };
    (config, problems)
}

impl Config {
    /// Reads the configuration table. Adds the problems to the section.
    pub(super) fn read(section: &mut Section<'_>, dialect: Dialect) -> Self {
        let default = Self::default();
        let upstream = Upstream::read(section, dialect);
        let config = Self {
            disable: upstream.disable.unwrap_or(default.disable),
            socket: if upstream.disable_connections { None } else { upstream.socket.or(default.socket) },
            plugin_path: upstream.plugin_path.or(default.plugin_path),
            plugin_config_path: upstream.plugin_config_path.or(default.plugin_config_path),
            registration_timeout: upstream.registration_timeout.unwrap_or(default.registration_timeout),
            allowed_uids: section.take("allowed_uids").unwrap_or(default.allowed_uids),
            socket_gid: section.take_with("socket_gid", group),
            max_unregistered: section.take_with("max_unregistered", count).unwrap_or(default.max_unregistered),
            max_plugins: section.take_with("max_plugins", count).unwrap_or(default.max_plugins),
            shutdown_grace: section.take("shutdown_grace").map_or(default.shutdown_grace, Option::unwrap_or_default),
            source_timeout: section.take_set("source_timeout").unwrap_or(default.source_timeout),
            operation_timeout: section.take_set("operation_timeout").unwrap_or(default.operation_timeout),
            request_budget: section.take_set("request_budget"),
            required_exempt_namespaces: section
                .take("required_exempt_namespaces")
                .unwrap_or(default.required_exempt_namespaces),
            required_tolerate_annotation: section
                .take("required_tolerate_annotation")
                .unwrap_or(default.required_tolerate_annotation),
            history_bytes: section.take_with("history_bytes", size).unwrap_or(default.history_bytes),
            policies: Policies::read(section, upstream.request_timeout, dialect),
            default_validator: section.section("default_validator").map(|mut section| {
                let validator = DefaultValidator::read(&mut section, dialect);
                section.finish(&dialect.others(DefaultValidator::KEYS));
                validator
            }),
            ..default
        };
        let mut elsewhere = dialect.others(Upstream::KEYS);
        config.report_users_that_cannot_connect(section);
        elsewhere.extend(PolicyRules::KEYS.iter().map(|key| (*key, format!("plugin_defaults.{key}"))));
        section.finish(&elsewhere);
        config
    }

    /// Reports policies that name a user who may not connect. Such a user could never be the
    /// plugin.
    fn report_users_that_cannot_connect(&self, section: &mut Section<'_>) {
        let Policies { defaults, plugins, unnamed: _ } = &self.policies;
        let tables = plugins.iter().map(|(key, rules)| (vec!["plugins", key.as_str(), "uids"], rules));
        for (keys, rules) in tables.chain([(vec!["plugin_defaults", "uids"], defaults)]) {
            let Some(Uids::Only(uids)) = &rules.uids else { continue };
            if let Some(&uid) = uids.iter().find(|uid| !self.allowed_uids.contains(uid)) {
                section.report_deeper(&keys, &["allowed_uids"], |allowed| Fault::CannotConnect { uid, allowed });
            }
        }
    }
}

impl Policies {
    /// Reads the policies from the configuration table. The caller has already taken upstream's
    /// request timeout, `timeout`.
    fn read(section: &mut Section<'_>, timeout: Option<Duration>, dialect: Dialect) -> Self {
        let defaults = section.section("plugin_defaults").map(|mut section| {
            let mut rules = PolicyRules::read(&mut section);
            for (key, said) in [("required", &mut rules.required), ("validator", &mut rules.validator)] {
                if said.take().is_some_and(|said| said) {
                    section.report(key, Fault::Nameless);
                }
            }
            section.finish(&[]);
            rules
        });
        let mut defaults = defaults.unwrap_or_default();
        if timeout.is_some() && defaults.request_timeout.is_some_and(|other| Some(other) != timeout) {
            let other = "plugin_defaults.request_timeout".to_owned();
            section.report(dialect.choose(REQUEST_TIMEOUT), Fault::Contradicts { other });
        }
        defaults.request_timeout = defaults.request_timeout.or(timeout);

        let unnamed = section.take("unnamed").unwrap_or_default();
        let mut policies = Self { defaults, unnamed, ..Self::default() };
        if let Some(mut plugins) = section.section("plugins") {
            plugins.sections(|key, section| {
                let rules = PolicyRules::read(section);
                section.finish(&[("allowed_uids", "uids".to_owned())]);
                match key.parse::<PluginKey>() {
                    Ok(key) => _ = policies.plugins.insert(key, rules),
                    Err(error) => section.report_all(Fault::NoPlugin(error)),
                }
            });
        }
        for Contradiction { demand, obstacle, reason } in policies.contradictions() {
            section.report_deeper(&obstacle.keys(), &demand.keys(), |demand| Fault::Undoes { demand, reason });
        }
        policies
    }
}

/// Reads a group id. The highest number means "no group" in system calls.
fn group(value: &Value) -> Result<u32, String> {
    let number = value.as_integer().and_then(|number| u32::try_from(number).ok());
    number.filter(|number| *number != u32::MAX).ok_or_else(|| "a group id, as a number".to_owned())
}

/// Reads a limit in bytes.
fn size(value: &Value) -> Result<usize, String> {
    const MOST: usize = 1 << 30;
    let number = value.as_integer().and_then(|number| usize::try_from(number).ok());
    number.filter(|number| *number <= MOST).ok_or_else(|| format!("a number of bytes up to {MOST}"))
}

/// Reads a limit for a number of connections or plugins.
fn count(value: &Value) -> Result<usize, String> {
    const MOST: usize = 4096;
    let number = value.as_integer().and_then(|number| usize::try_from(number).ok());
    number.filter(|number| (1..=MOST).contains(number)).ok_or_else(|| format!("a whole number from 1 to {MOST}"))
}
