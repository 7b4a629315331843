//! The Node Resource Interface protocol.

mod generated;

pub use generated::nri as api;
pub use generated::nri_ttrpc as service;

pub mod call;
pub mod mux;
#[cfg(test)]
mod raw;
