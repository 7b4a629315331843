//! The policy of one plugin at one moment: the operator's settings combined with the plugin's own
//! declarations.

use nri_proto::{Event, EventMask, PluginId};

use crate::api::health::Rules;
use crate::config::policy::{Declared, Effective, Mode, Policies, Policy};

/// The policy under which a plugin is asked. A value is never changed, only replaced, so a request
/// keeps the policy that it began with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PluginPolicy {
    /// The events that the plugin subscribed to and that the operator allows.
    pub(crate) events: EventMask,
    pub(crate) effective: Effective,
}

impl PluginPolicy {
    /// Computes the policy of a plugin that subscribed to the events `wanted` and declares this
    /// about itself.
    pub(crate) fn of(policies: &Policies, id: &PluginId, wanted: EventMask, declared: Declared) -> Self {
        let effective = policies.effective(id, declared);
        let is_allowed = |event: &Event| effective.policy.allow.allows_event(*event);
        Self { events: wanted.iter().filter(is_allowed).collect(), effective }
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.effective.policy
    }

    /// Returns whether the operator restricts the plugin's events, and allows none of the events
    /// that the plugin subscribed to.
    pub(crate) fn hears_nothing(&self) -> bool {
        self.policy().allow.events.is_some() && self.events.is_empty()
    }

    /// Returns whether the plugin is asked about an event of a pod in this Kubernetes namespace.
    pub(crate) fn is_asked(&self, event: Event, namespace: &str) -> bool {
        self.events.contains(event) && self.policy().namespaces.contains(namespace)
    }

    /// Returns whether a request may wait for the plugin for a shorter time than the plugin's
    /// request timeout.
    pub(crate) fn may_be_cut_short(&self) -> bool {
        !self.policy().required || self.policy().mode == Mode::Shadow
    }

    /// Returns the rules by which the plugin's health is judged when it does not answer.
    pub(crate) fn rules(&self) -> Rules {
        let policy = self.policy();
        Rules {
            strikes: policy.strikes.get(),
            keep_connected: policy.keep_connected,
            interval: policy.request_timeout,
            first_pause: policy.first_pause,
            longest_pause: policy.longest_pause,
        }
    }
}
