//! The Node Resource Interface protocol.

mod generated;
mod wire;
pub mod words;

pub use generated::nri as api;
pub use generated::nri_ttrpc as service;
pub use words::*;
