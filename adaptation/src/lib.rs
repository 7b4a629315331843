//! The runtime side of the Node Resource Interface.

pub mod merge;
