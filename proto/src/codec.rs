//! From model types to bytes and back.

pub mod bounded;
pub mod decode;
pub mod encode;
mod tables;
