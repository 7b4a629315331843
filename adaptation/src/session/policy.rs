//! On which terms a plugin is asked: what the operator says about it and what it says itself, as it
//! is at one moment.

use nri_proto::{Event, EventMask, PluginId};

use crate::api::health::Rules;
use crate::config::policy::{Declared, Effective, Mode, Policies, Policy};

/// On which terms a plugin is asked. They are never changed, only replaced, so whoever has them
/// keeps what it began with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PluginPolicy {
    /// What it subscribed to, as far as it may.
    pub(crate) events: EventMask,
    pub(crate) effective: Effective,
}

impl PluginPolicy {
    /// What comes of the operator's word for a plugin that wants these events and says this about
    /// itself.
    pub(crate) fn of(policies: &Policies, id: &PluginId, wanted: EventMask, declared: Declared) -> Self {
        let effective = policies.effective(id, declared);
        let is_allowed = |event: &Event| effective.policy.allow.allows_event(*event);
        Self { events: wanted.iter().filter(is_allowed).collect(), effective }
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.effective.policy
    }

    /// Whether the operator lets it hear of nothing that it wants to hear of.
    pub(crate) fn hears_nothing(&self) -> bool {
        self.policy().allow.events.is_some() && self.events.is_empty()
    }

    /// Whether it is asked about an event of a pod in this namespace.
    pub(crate) fn is_asked(&self, event: Event, namespace: &str) -> bool {
        self.events.contains(event) && self.policy().namespaces.contains(namespace)
    }

    /// Whether a request may wait for the plugin for a shorter time than the plugin may take.
    pub(crate) fn may_be_cut_short(&self) -> bool {
        !self.policy().required || self.policy().mode == Mode::Shadow
    }

    /// How it is judged when it does not answer.
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
