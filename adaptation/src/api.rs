//! TODO guide

pub(crate) mod decision;
pub(crate) mod error;
pub mod health;
pub mod plugin;
pub(crate) mod queue;
pub mod request;
pub mod snapshot;
pub(crate) mod source;
