//! The runtime side of the Node Resource Interface.
