//! Text for people and for comparison. Uses nothing of this crate.
//!
//! - `quote.rs`: quotes strings as Go does, and formats errors and untrusted text for a log line.
//! - `spelling.rs`: normal forms of file system paths and sysctl names.

pub mod quote;
pub mod spelling;
