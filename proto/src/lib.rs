//! The Node Resource Interface protocol.
