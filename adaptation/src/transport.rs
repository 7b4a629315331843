//! TODO guide

pub(crate) mod connection;
pub(crate) mod front;
pub(crate) mod listener;
pub(crate) mod remote;
pub mod socket;
pub(crate) mod strangers;
