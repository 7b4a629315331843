//! The Node Resource Interface protocol, shared by both ends of the wire.
//!
//! Generated from `nri.proto`: the messages in [`api`], the ttRPC services in [`service`].

mod generated;

pub mod quote;

pub use generated::nri as api;
pub use generated::nri_ttrpc as service;
