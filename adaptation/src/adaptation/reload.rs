//! Another word of the operator, while plugins are asked.

use tracing::{info, warn};

use crate::adaptation::Adaptation;
use crate::config::Config;
use crate::config::snapshot::ConfigSnapshot;

impl Adaptation {
    /// What the operator says from now on: of `config`, the [policies](Config::policies), the
    /// [exempt namespaces](Config::required_exempt_namespaces), the [annotation that tolerates
    /// absence](Config::required_tolerate_annotation) and the [default
    /// validator](Config::default_validator). Returns what else of it differs and [needs a
    /// restart](Config::changes_that_need_a_restart), by its key; that is left as it is.
    ///
    /// Plugins that are there, are joining or are on their way out are treated so from the next
    /// request on; what they declared about themselves still counts as far as the operator lets it.
    /// [`Happening::Policy`](crate::Happening::Policy) tells of each that is there and whose policy
    /// is another one now. Requests that are being made keep what held when they began, up to the
    /// last plugin, the validators and the late answer. One that still waits for a required plugin
    /// to join waits no longer than is required now. In particular:
    ///
    /// - A plugin that is required now and is absent refuses what it gates; one that is not any
    ///   more, does not.
    /// - What a plugin missed while it was silent or suspended it is told, whether or not it may
    ///   see such things now.
    /// - Strikes that a plugin has count under the new rules, with the next one. A suspended plugin
    ///   that is not to be kept any more is closed if its trial fails.
    /// - A plugin that sees more namespaces or events now hears what happens in them from now on.
    ///   It is not shown what there was before, and may hear the end of something whose beginning
    ///   it has not seen. It is shown all of it when it joins again.
    /// - A plugin that sees fewer namespaces or events now does not hear how things end there that
    ///   it has seen begin. Only what comes to nothing, in an operation that fails, it is told all
    ///   the same.
    /// - A plugin that may not be one any more, because of its user, of how it came, or for want of
    ///   a table, is closed; one that joins is refused before it is shown anything more, and what
    ///   it asks for is not done. A program that may be launched now is, within a minute.
    /// - A pod's annotation that tolerates absence does so from the next request on, or does not
    ///   any more.
    /// - A plugin is not told again which `request_timeout` it has; that is part of joining, as is
    ///   `sync_timeout`.
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
        info!(plugins, "the policy was reloaded");
        let left = self.shared.services.config.changes_that_need_a_restart(config);
        if !left.is_empty() {
            warn!(keys = ?left, "what is changed needs a restart");
        }
        left
    }
}
