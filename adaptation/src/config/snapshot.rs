//! What the operator says, as it is at one moment.

use tracing::warn;

use crate::config::policy::Policies;
use crate::config::requirements::Requirements;
use crate::config::{Config, DefaultValidator, RequestBudget};

/// All that a reload replaces. It is never changed, only replaced.
pub(crate) struct ConfigSnapshot {
    /// How many there were before it.
    pub(crate) number: u64,
    pub(crate) policies: Policies,
    /// Whether there may be pods that a plugin does not see.
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

    /// Logs what of the operator's demands does not hold. Not under a lock: whoever writes the log
    /// may take a while.
    pub(crate) fn complain(config: &Config) {
        for contradiction in config.policies.contradictions() {
            warn!(%contradiction, "what is demanded of a plugin does not hold");
        }
    }

    /// Upstream's validator, if it is wanted.
    pub(crate) fn default_validator(&self) -> Option<&DefaultValidator> {
        self.default_validator.as_ref()
    }
}
