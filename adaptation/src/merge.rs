//! Merges what several plugins reply to one request.
//!
//! Each request that plugins answer with changes has a merge: [`CreateMerge`], [`UpdateMerge`] or
//! [`StopMerge`]. Replies are applied in the order in which plugins are asked. After each reply,
//! `view` returns what the next plugin is shown, and [`Applied`] reports whether that changed. At
//! the end, `finish` returns what the runtime has to do.
//!
//! 1. A reply is converted to a list of the fields that it touches ([`Touch`]), and each of them is
//!    claimed. A field that another plugin has claimed is a [`Conflict`], which names both plugins.
//!    A plugin that first removes an entry may set the entry again.
//! 2. The merge changes only if all claims succeed. A refused reply leaves no trace.
//! 3. The reply is added to the result, and applied to the view.
//!
//! | file | contents |
//! |---|---|
//! | `create.rs`, `update.rs`, `stop.rs` | one merge for each kind of request |
//! | `touch.rs`, `claims.rs`, `spellings.rs` | the fields that a reply touches, one spelling for each key, and the claims |
//! | `collect.rs`, `resources.rs`, `other_updates.rs` | the result |
//! | `view.rs` | the container as the next plugin sees it |
//! | `notes.rs`, `change.rs`, `change_log.rs`, `packing.rs` | the list of changes, for the ledger |
//! | `dropped.rs`, `error.rs` | ignored parts of a reply, and why a reply is refused |
//!
//! The merge is pure: it does no I/O, never waits and reads no clock. The same replies in the same
//! order give the same result. Rules and error texts are upstream's, except where
//! `docs/differences.md` says otherwise.

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

/// The effect of one reply on a merge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The changes of the reply, in the order in which they were made.
    pub changes: Changes,
    /// The parts of the reply that were ignored.
    pub dropped: Vec<Dropped>,
}

impl Applied {
    /// Creates an effect without changes. The fields that could not be read count as dropped.
    fn without(unread: Vec<Unread>) -> Self {
        Self { changes: Changes::default(), dropped: unread.into_iter().map(Dropped::Unread).collect() }
    }

    /// Returns whether the next plugin is shown something else than this plugin was.
    pub fn view_changed(&self) -> bool {
        self.changes.change_view()
    }
}
