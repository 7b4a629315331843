//! What the tests of this workspace share.

pub mod described;
pub mod fuzz;
pub mod go;
pub mod merging;
pub mod wire;
