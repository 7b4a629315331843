//! TODO guide

pub(crate) mod admission;
pub(crate) mod drain;
pub(crate) mod early;
pub(crate) mod join;
pub(crate) mod membership;
