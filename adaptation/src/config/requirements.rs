//! Which plugins must be there for a pod, as the operator says.

use nri_proto::Pod;

use crate::config::Config;
use crate::config::policy::{Exemptions, Mode, Namespaces, PluginKey, Policies};

/// All that the operator requires.
pub(crate) struct Requirements {
    required: Vec<RequiredPlugin>,
    validators: Vec<RequiredPlugin>,
    exemptions: Exemptions,
}

/// Whether a plugin that is demanded is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// The plugin is asked.
    Present,
    /// The plugin has registered, and is not asked yet.
    Joining,
    /// No such plugin is connected.
    Absent,
}

/// A plugin that must be there for the pods that it sees.
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

    /// Says whether the operator lets a pod do without required plugins, also if they are there and
    /// do not answer.
    pub(crate) fn is_exempt(&self, pod: &Pod) -> bool {
        self.exemptions.namespaces.contains(&pod.namespace)
    }

    /// Says whether a pod, or this container of it, may do without required plugins that are
    /// absent.
    pub(crate) fn tolerates_absence(&self, pod: &Pod, container: Option<&str>) -> bool {
        // An annotation that means nothing exempts nobody.
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
                    // The plugin is connected: the annotation of a pod does not speed it up.
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
        // One on trial holds nobody up.
        let is_on_trial = said().find_map(|rules| rules.mode) == Some(Mode::Shadow);
        let namespaces = said().find_map(|rules| rules.namespaces.clone()).unwrap_or_else(Namespaces::all);
        (!is_on_trial).then(|| RequiredPlugin { key: key.clone(), namespaces })
    };
    keys.filter_map(demand).collect()
}
