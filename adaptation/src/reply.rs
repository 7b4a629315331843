//! Processes the reply of a plugin.
//!
//! - `question.rs` checks a reply against the plugin's policy and merges it.
//! - `merging.rs` holds the merge of a request, and the next plugin's view of the request.
//! - `recorder.rs` writes the ledger. `update_log.rs` tells whether a late reply is outdated.
//! - `dry_run.rs` merges replies without plugins.

pub mod dry_run;
pub(crate) mod merging;
pub(crate) mod question;
pub(crate) mod recorder;
pub(crate) mod update_log;
