//! TODO guide

pub mod dry_run;
pub(crate) mod merging;
pub(crate) mod question;
pub(crate) mod recorder;
pub(crate) mod update_log;
