//! Facts that a runtime and a plugin know about each other before the first request.
//!
//! - `plugin_id.rs`: a plugin's index and name.
//! - `version.rs`: the protocol version of a peer; `version/runtimes.rs` infers it from a runtime's
//!   own version.
//! - `defaults.rs`: well-known paths, environment variables and timeouts.

pub mod defaults;
pub mod plugin_id;
pub mod version;
