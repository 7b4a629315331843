//! What several plugins' replies to one question come to.
//!
//! A merge is made for each question that is answered with changes: [`CreateMerge`],
//! [`UpdateMerge`], [`StopMerge`]. Replies are applied in the order in which plugins are asked.
//! After each, `view` is what the next plugin is shown, and [`Applied`] says whether that changed.
//! At the end `finish` gives what the runtime is to do.
//!
//! 1. A reply is looked at as a list of what it touches ([`Touch`]), and each touch is claimed.
//!    What another plugin has claimed is a [`Conflict`] that names both. A plugin that removes
//!    something first may set it again.
//! 2. Only if all claims could be made is anything changed: a refused reply leaves nothing behind.
//! 3. The reply is added to the result, and made in the view.
//!
//! | file | what is in it |
//! |---|---|
//! | `create.rs`, `update.rs`, `stop.rs` | a merge for each kind of question |
//! | `touch.rs`, `claims.rs`, `spellings.rs` | what a reply touches, under one spelling of each key, and who claimed it |
//! | `collect.rs`, `resources.rs`, `other_updates.rs` | the result |
//! | `view.rs` | the container as the next plugin sees it |
//! | `notes.rs`, `change.rs`, `change_log.rs`, `packing.rs` | what was changed, for the ledger and the encoder |
//! | `dropped.rs`, `error.rs` | what was left out, and why a reply was refused |
//!
//! Nothing here does I/O, waits or knows the time, and the same replies in the same order give the
//! same result. Rules and texts are upstream's; where they are not, `docs/differences.md` says so.

mod change;
mod change_log;
mod claims;
mod collect;
mod create;
mod dropped;
mod error;
mod notes;
mod other_updates;
pub(crate) mod packing;
pub(crate) mod resources;
mod spellings;
mod stop;
#[cfg(test)]
mod tests;
mod touch;
mod update;
mod view;

pub use change::{Changed, Value};
pub use change_log::Changes;
pub use create::{CreateMerge, MergedCreate};
pub use dropped::Dropped;
pub use error::{Conflict, MergeError};
pub use other_updates::AskedEviction;
pub use stop::{MergedStop, StopMerge};
pub use touch::Touch;
pub use update::{MergedUpdate, UpdateMerge};

use nri_proto::Unread;

/// What became of a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// What it changed, in the order in which it was changed.
    pub changes: Changes,
    /// What of it was not used.
    pub dropped: Vec<Dropped>,
}

impl Applied {
    /// Begins with what nobody could read.
    fn without(unread: Vec<Unread>) -> Self {
        Self { changes: Changes::default(), dropped: unread.into_iter().map(Dropped::Unread).collect() }
    }

    /// Says whether the next plugin is shown something else than this one was.
    pub fn view_changed(&self) -> bool {
        !self.changes.shown().is_nothing()
    }
}
