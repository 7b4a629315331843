//! The beginning and the end of a plugin's time, as whoever watches is told of them.

use std::sync::Arc;

use super::PluginSession;
use super::SessionStage;
use crate::api::health::{Effect, State};
use crate::events::Happening;

impl PluginSession {
    pub(crate) fn has_joined(&self) -> bool {
        self.standing().stage != SessionStage::Joining
    }

    /// It has joined, perhaps in place of another: requests ask it. False if more happened than is
    /// kept for it.
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
        // It may have become silent while it was told what it had missed.
        let state = standing.health.state();
        if state != State::Active {
            self.note_state(&standing, Effect::Became(state));
        }
        true
    }

    /// What can be told it that was not when it joined, is.
    pub(crate) fn goes_on(self: &Arc<Self>) {
        self.update(|_| ((), Effect::None), "");
    }

    /// It is asked no more in operations that begin now.
    pub(crate) fn is_dismissed(&self, reason: &str) {
        let mut standing = self.standing();
        standing.stage = SessionStage::Dismissed;
        // It may be closed already, for a reason of its own.
        let reason = self.reason.get().map_or(reason, String::as_str).to_owned();
        self.services.watchers.note(Happening::Closed { plugin: self.id.clone(), reason });
    }

    /// Whether whoever watches has been told that it is closed.
    pub(crate) fn was_dismissed(&self) -> bool {
        self.standing().stage == SessionStage::Dismissed
    }
}

/// Why a plugin is closed whose place another one took.
pub(crate) const REPLACED: &str = "another plugin of the same name took its place";
