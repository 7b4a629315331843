//! The code that the build generates from `nri.proto`. Nothing here is written by hand but the
//! access to it.
//!
//! - `generated.rs`: the messages (`api`) and the ttrpc services (`service`).
//! - `shape.rs`: which fields of a message contain messages, to walk over encoded messages.
//! - `field_numbers.rs`: the number of each field, to encode model types without messages.
//! - `descriptor.rs`: the full descriptors, for programs that print or compare any message.

pub mod descriptor;
pub(crate) mod field_numbers;
mod generated;
pub mod shape;

pub use generated::{nri as api, nri_ttrpc as service};
