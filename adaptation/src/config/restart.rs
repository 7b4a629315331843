//! The settings that take effect only when the adaptation is restarted.

use super::Config;

impl Config {
    /// Returns the keys of the settings that differ from `other` and cannot be
    /// [reloaded](crate::Adaptation::reload).
    ///
    /// Names and versions are not compared: the runtime sets them, and no operator can change them.
    ///
    /// ```
    /// use nri_adaptation::config::Config;
    ///
    /// let now = Config::default();
    /// let new = Config::from_toml("socket_path = '/run/nri.sock'\n[plugins.guard]\nrequired = true")?;
    /// assert_eq!(now.changes_that_need_a_restart(&new), ["socket_path"]);
    /// # Ok::<(), nri_adaptation::config::ConfigError>(())
    /// ```
    #[must_use]
    pub fn changes_that_need_a_restart(&self, other: &Self) -> Vec<&'static str> {
        // The pattern names every field, so that the compiler demands a decision about each new
        // setting.
        let Self {
            disable,
            runtime_name: _,
            runtime_version: _,
            nri_version: _,
            socket,
            plugin_path,
            plugin_config_path,
            registration_timeout,
            allowed_uids,
            socket_gid,
            max_unregistered,
            max_plugins,
            shutdown_grace,
            source_timeout,
            operation_timeout,
            request_budget: _,
            history_bytes,
            policies: _,
            required_exempt_namespaces: _,
            required_tolerate_annotation: _,
            default_validator: _,
        } = self;
        let socket_key = if socket.is_some() == other.socket.is_some() { "socket_path" } else { "disable_connections" };
        let is_same = [
            ("disable", *disable == other.disable),
            (socket_key, *socket == other.socket),
            ("plugin_path", *plugin_path == other.plugin_path),
            ("plugin_config_path", *plugin_config_path == other.plugin_config_path),
            ("plugin_registration_timeout", *registration_timeout == other.registration_timeout),
            ("allowed_uids", *allowed_uids == other.allowed_uids),
            ("socket_gid", *socket_gid == other.socket_gid),
            ("max_unregistered", *max_unregistered == other.max_unregistered),
            ("max_plugins", *max_plugins == other.max_plugins),
            ("shutdown_grace", *shutdown_grace == other.shutdown_grace),
            ("source_timeout", *source_timeout == other.source_timeout),
            ("operation_timeout", *operation_timeout == other.operation_timeout),
            ("history_bytes", *history_bytes == other.history_bytes),
        ];
        is_same.into_iter().filter(|(_, is_same)| !is_same).map(|(key, _)| key).collect()
    }
}
