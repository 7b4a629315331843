//! Encoding and decoding without intermediate messages, and bounded decoding of messages.
//!
//! The field numbers come from `nri.proto`. The tables in `convert` say which field of a message is
//! which field of its model type.
//!
//! - `encode.rs`: model types to bytes; `encode/value.rs` encodes the types of fields.
//! - `decode.rs`: bytes to model types; `decode/value.rs` decodes the types of fields.
//! - `bounded.rs`: decodes messages after counting their entries.

pub mod bounded;
pub mod decode;
pub mod encode;

pub(crate) use {decode::decode, encode::encode};
