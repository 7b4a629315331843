//! The plugins that must be present for a pod, as the operator configures it.

use nri_proto::Pod;

use crate::config::Config;
use crate::config::policy::{Exemptions, Mode, Namespaces, PluginKey, Policies};

/// The plugins that the operator requires, and the pods that are exempt.
pub(crate) struct Requirements {
    required: Vec<RequiredPlugin>,
    validators: Vec<RequiredPlugin>,
    /// Whether each plugin that is connected is required, unless its own table says otherwise.
    are_all_required: bool,
    exemptions: Exemptions,
}

/// Whether a plugin that the operator requires is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// The plugin has joined, and requests ask it.
    Present,
    /// The plugin has registered, but requests do not ask it yet.
    Joining,
    /// No such plugin is connected.
    Absent,
}

/// A plugin that must be present for the pods that it sees.
struct RequiredPlugin {
    key: PluginKey,
    namespaces: Namespaces,
}

impl Requirements {
    pub(crate) fn of(config: &Config) -> Self {
        let policies = &config.policies;
        Self {
            required: demands(policies, policies.required()),
            validators: demands(policies, policies.validators()),
            are_all_required: policies.defaults.required == Some(true),
            exemptions: config.exemptions(),
        }
    }

    /// Returns whether the operator requires no plugin.
    pub(crate) fn are_none(&self) -> bool {
        self.required.is_empty() && self.validators.is_empty() && !self.are_all_required
    }

    /// Returns the required plugins.
    pub(crate) fn required(&self) -> impl Iterator<Item = &PluginKey> {
        self.required.iter().map(|demand| &demand.key)
    }

    /// Returns the validators.
    pub(crate) fn validators(&self) -> impl Iterator<Item = &PluginKey> {
        self.validators.iter().map(|demand| &demand.key)
    }

    /// Returns the first required plugin that is missing for a pod.
    pub(crate) fn missing(
        &self,
        pod: &Pod,
        container: Option<&str>,
        presence: impl Fn(&PluginKey) -> Presence,
    ) -> Option<&PluginKey> {
        self.first_missing(&self.required, pod, container, presence)
    }

    /// Returns the first validator that is missing for a pod.
    pub(crate) fn missing_validator(
        &self,
        pod: &Pod,
        container: Option<&str>,
        presence: impl Fn(&PluginKey) -> Presence,
    ) -> Option<&PluginKey> {
        self.first_missing(&self.validators, pod, container, presence)
    }

    /// Returns whether the pod is in an exempt namespace. Such a pod runs without required plugins,
    /// even if they are connected and do not answer.
    pub(crate) fn is_exempt(&self, pod: &Pod) -> bool {
        self.exemptions.namespaces.contains(&pod.namespace)
    }

    /// Returns whether a pod, or one container of it, may run although required plugins are absent.
    pub(crate) fn tolerates_absence(&self, pod: &Pod, container: Option<&str>) -> bool {
        // An invalid annotation exempts nothing.
        self.exemptions.cover(pod, container).unwrap_or(false)
    }

    fn first_missing<'d>(
        &self,
        demands: &'d [RequiredPlugin],
        pod: &Pod,
        container: Option<&str>,
        presence: impl Fn(&PluginKey) -> Presence,
    ) -> Option<&'d PluginKey> {
        let is_missing = |demand: &&RequiredPlugin| {
            demand.namespaces.contains(&pod.namespace)
                && match presence(&demand.key) {
                    Presence::Present => false,
                    // The plugin is connected, so the annotation of a pod does not shorten the wait
                    // for it.
                    Presence::Joining => !self.is_exempt(pod),
                    Presence::Absent => !self.tolerates_absence(pod, container),
                }
        };
        demands.iter().find(is_missing).map(|demand| &demand.key)
    }
}

fn demands<'p>(policies: &'p Policies, keys: impl Iterator<Item = &'p PluginKey>) -> Vec<RequiredPlugin> {
    let demand = |key: &PluginKey| {
        let layers = policies.layers(key);
        let said = || layers.iter().map(|layer| layer.rules);
        // A plugin in shadow mode is never required.
        let is_shadow = said().find_map(|rules| rules.mode) == Some(Mode::Shadow);
        let namespaces = said().find_map(|rules| rules.namespaces.clone()).unwrap_or_else(Namespaces::all);
        (!is_shadow).then(|| RequiredPlugin { key: key.clone(), namespaces })
    };
    keys.filter_map(demand).collect()
}
