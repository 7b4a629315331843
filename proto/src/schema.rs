//! What the build makes of `nri.proto`.

pub mod descriptor;
mod generated;
pub mod shape;

pub use generated::{nri as api, nri_ttrpc as service};
