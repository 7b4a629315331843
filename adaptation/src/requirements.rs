//! Which plugins must be there for a pod, as the operator says.

use nri_proto::Pod;

use crate::config::Config;
use crate::policy::{Exemptions, Mode, Namespaces, PluginKey, Policies};

/// All that the operator requires.
pub(crate) struct Requirements {
    required: Vec<Demand>,
    validators: Vec<Demand>,
    exemptions: Exemptions,
}

/// A plugin that must be there for the pods that it sees.
struct Demand {
    key: PluginKey,
    namespaces: Namespaces,
}

impl Requirements {
    pub(crate) fn of(config: &Config) -> Self {
        let policies = &config.policies;
        Self {
            required: demands(policies, policies.required()),
            validators: demands(policies, policies.validators()),
            exemptions: config.exemptions(),
        }
    }

    /// Whether there are none.
    pub(crate) fn are_none(&self) -> bool {
        self.required.is_empty() && self.validators.is_empty()
    }

    /// Those that must be there.
    pub(crate) fn required(&self) -> impl Iterator<Item = &PluginKey> {
        self.required.iter().map(|demand| &demand.key)
    }

    /// Those that must validate.
    pub(crate) fn validators(&self) -> impl Iterator<Item = &PluginKey> {
        self.validators.iter().map(|demand| &demand.key)
    }

    /// The first required plugin that is not there, unless the pod may do without.
    pub(crate) fn missing(
        &self,
        pod: &Pod,
        container: Option<&str>,
        is_there: impl Fn(&PluginKey) -> bool,
    ) -> Option<&PluginKey> {
        first_missing(&self.required, pod, is_there).filter(|_| !self.is_exempt(pod, container))
    }

    /// The first validator that is not there, unless the pod may do without.
    pub(crate) fn missing_validator(
        &self,
        pod: &Pod,
        container: Option<&str>,
        is_there: impl Fn(&PluginKey) -> bool,
    ) -> Option<&PluginKey> {
        first_missing(&self.validators, pod, is_there).filter(|_| !self.is_exempt(pod, container))
    }

    /// Whether a pod, or this container of it, may do without what is required.
    pub(crate) fn is_exempt(&self, pod: &Pod, container: Option<&str>) -> bool {
        // An annotation that means nothing exempts nobody.
        self.exemptions.cover(pod, container).unwrap_or(false)
    }
}

fn demands<'p>(policies: &'p Policies, keys: impl Iterator<Item = &'p PluginKey>) -> Vec<Demand> {
    let demand = |key: &PluginKey| {
        let layers = policies.layers(key);
        let said = || layers.iter().map(|layer| layer.rules);
        // One on trial holds nobody up.
        let is_on_trial = said().find_map(|rules| rules.mode) == Some(Mode::Shadow);
        let namespaces = said().find_map(|rules| rules.namespaces.clone()).unwrap_or_else(Namespaces::all);
        (!is_on_trial).then(|| Demand { key: key.clone(), namespaces })
    };
    keys.filter_map(demand).collect()
}

fn first_missing<'d>(demands: &'d [Demand], pod: &Pod, is_there: impl Fn(&PluginKey) -> bool) -> Option<&'d PluginKey> {
    demands
        .iter()
        .find(|demand| demand.namespaces.contains(&pod.namespace) && !is_there(&demand.key))
        .map(|demand| &demand.key)
}
