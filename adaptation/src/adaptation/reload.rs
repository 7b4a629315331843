//! Applies a new configuration while plugins are connected.

use tracing::{info, warn};

use crate::adaptation::Adaptation;
use crate::config::Config;
use crate::config::snapshot::ConfigSnapshot;

impl Adaptation {
    /// Applies a new configuration: the [policies](Config::policies), the [exempt
    /// namespaces](Config::required_exempt_namespaces), the [annotation that tolerates
    /// absence](Config::required_tolerate_annotation) and the [default
    /// validator](Config::default_validator) of `config`. Everything else stays as it is. Returns
    /// the keys of the other settings that differ, which [need a
    /// restart](Config::changes_that_need_a_restart).
    ///
    /// The new policies hold from the next request on, for plugins that have joined, are joining or
    /// are leaving. What a plugin declared about itself still counts as far as the operator permits
    /// it. [`Happening::Policy`](crate::Happening::Policy) reports each plugin whose policy
    /// changed. A request in flight keeps the former policies, up to its last plugin, its
    /// validators and late answers. A request that waits for a required plugin to join stops
    /// waiting if the plugin is no longer required. In particular:
    ///
    /// - A required plugin that is absent fails the requests that it gates. A plugin that is no
    ///   longer required does not.
    /// - Events that a plugin missed while it was silent or suspended are delivered, whether or not
    ///   the new policy permits the plugin to see them.
    /// - Strikes so far count under the new rules, with the next strike. If the new rules close
    ///   plugins instead of suspending them, a suspended plugin is closed when its probe fails.
    /// - A plugin that may see more namespaces or events receives their events from now on.
    ///   Existing objects are not shown, so the plugin may see the end of an object whose beginning
    ///   it has not seen. When the plugin joins again, everything is shown.
    /// - A plugin that may see fewer namespaces or events does not receive the ends of objects
    ///   whose beginning it has seen. Only the rollback of a failed operation is still delivered.
    /// - A plugin that is no longer permitted is closed: because of its user, its origin, or
    ///   because no table names it. A plugin that is joining is refused before anything more is
    ///   shown to it, and its updates are not applied. A program that becomes permitted is launched
    ///   within a minute.
    /// - The annotation of a pod that tolerates absence takes effect, or loses its effect, with the
    ///   next request.
    /// - A plugin does not learn its new `request_timeout`. That value is sent when a plugin joins,
    ///   and so is `sync_timeout`.
    ///
    /// ```
    /// # use nri_adaptation::{Adaptation, Config, config::ConfigError};
    /// fn read_again(nri: &Adaptation, text: &str) -> Result<(), ConfigError> {
    ///     for key in nri.reload(&Config::from_toml(text)?) {
    ///         println!("{key} is another one when the runtime is started again");
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn reload(&self, config: &Config) -> Vec<&'static str> {
        ConfigSnapshot::complain(config);
        let plugins = self.shared.reload(config);
        info!(plugins, "policies reloaded");
        let left = self.shared.services.config.changes_that_need_a_restart(config);
        if !left.is_empty() {
            warn!(keys = ?left, "changed settings take effect only after a restart");
        }
        left
    }
}
