//! Code that the tests of this workspace share.

pub mod fuzz;
pub mod generating;
pub mod go;
pub mod merging;
pub mod text;
pub mod wire;
