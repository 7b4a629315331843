//! The beginning and the end of a plugin's session, as they are reported to observers.

use std::sync::Arc;

use super::PluginSession;
use super::SessionStage;
use crate::api::health::{Effect, State};
use crate::events::Happening;

impl PluginSession {
    pub(crate) fn has_joined(&self) -> bool {
        self.standing().stage != SessionStage::Joining
    }

    /// Records that the plugin has joined and dismisses the plugin that it replaces, if any:
    /// requests ask it from now on. Returns false if more happened than the journal could hold.
    pub(crate) fn joins(&self, replaced: Option<&PluginSession>) -> bool {
        let mut standing = self.standing();
        if standing.deaf {
            return false;
        }
        if let Some(replaced) = replaced {
            replaced.is_dismissed(REPLACED);
        }
        standing.stage = SessionStage::Joined;
        let terms = self.terms();
        let (plugin, events, policy) = (self.id.clone(), terms.events, terms.effective.to_string());
        self.services.watchers.note(Happening::Joined { plugin, events, policy });
        // The plugin may have become silent while its journal was delivered.
        let state = standing.health.state();
        if state != State::Active {
            self.note_state(&standing, Effect::Became(state));
        }
        true
    }

    /// Delivers requests of the journal that have become deliverable.
    pub(crate) fn goes_on(self: &Arc<Self>) {
        self.update(|_| ((), Effect::None), "");
    }

    /// Records that operations that begin from now on do not ask the plugin, and queues its end for
    /// observers.
    pub(crate) fn is_dismissed(&self, reason: &str) {
        let mut standing = self.standing();
        standing.stage = SessionStage::Dismissed;
        // The plugin may have been closed already, for another reason.
        let reason = self.reason.get().map_or(reason, String::as_str).to_owned();
        self.services.watchers.note(Happening::Closed { plugin: self.id.clone(), reason });
    }

    /// Returns whether observers were told that the plugin is closed.
    pub(crate) fn was_dismissed(&self) -> bool {
        self.standing().stage == SessionStage::Dismissed
    }
}

/// The reason for closing a plugin that another plugin has replaced.
pub(crate) const REPLACED: &str = "another plugin of the same name took its place";
