//! What becomes of a plugin's answer.
//!
//! - `question.rs` checks an answer against the policy of the plugin and merges it.
//! - `merging.rs` is the result of the answers so far, and the next plugin's view of it.
//! - `recorder.rs` writes the ledger; `update_log.rs` tells whether a late answer is out of date.
//! - `dry_run.rs` does all of this without a plugin.

pub mod dry_run;
pub(crate) mod merging;
pub(crate) mod question;
pub(crate) mod recorder;
pub(crate) mod update_log;
