//! TODO guide

pub(crate) mod decision;
pub(crate) mod error;
pub mod health;
pub(crate) mod operation;
pub mod plugin;
pub mod queue;
pub mod request;
pub mod snapshot;
pub(crate) mod source;
