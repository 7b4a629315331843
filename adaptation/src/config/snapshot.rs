//! The configuration in effect at one moment.

use tracing::warn;

use crate::config::policy::Policies;
use crate::config::requirements::Requirements;
use crate::config::{Config, DefaultValidator, RequestBudget};

/// The settings that a reload replaces. A snapshot is immutable: a reload creates a new one.
pub(crate) struct ConfigSnapshot {
    /// How many snapshots came before this one.
    pub(crate) number: u64,
    pub(crate) policies: Policies,
    /// Whether some plugin may not see some pods.
    pub(crate) hides_any: bool,
    pub(crate) requirements: Requirements,
    /// How long a request may wait, in all, for plugins that do not answer it.
    pub(crate) request_budget: RequestBudget,
    default_validator: Option<DefaultValidator>,
}

impl ConfigSnapshot {
    pub(crate) fn new(number: u64, config: &Config) -> Self {
        Self {
            number,
            policies: config.policies.clone(),
            hides_any: config.policies.hide_any(),
            requirements: Requirements::of(config),
            request_budget: config.request_budget(),
            default_validator: config.default_validator.clone().filter(|validator| validator.enable),
        }
    }

    /// Logs the contradictions between policy settings. Not to be called while a lock is held,
    /// because writing the log may block.
    pub(crate) fn complain(config: &Config) {
        for contradiction in config.policies.contradictions() {
            warn!(%contradiction, "contradictory policy settings of a plugin");
        }
    }

    /// Returns the settings of upstream's default validator, if it is enabled.
    pub(crate) fn default_validator(&self) -> Option<&DefaultValidator> {
        self.default_validator.as_ref()
    }
}
