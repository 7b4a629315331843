//! Encoding and decoding without intermediate messages, and bounded decoding of messages.
//!
//! - `encode.rs`: model types to bytes; `encode/value.rs` encodes the types of fields.
//! - `decode.rs`: bytes to model types; `decode/value.rs` decodes the types of fields.
//! - `tables.rs`: the field numbers of the model types, for both directions.
//! - `bounded.rs`: decodes messages after counting their entries.

pub mod bounded;
pub mod decode;
pub mod encode;
mod tables;
