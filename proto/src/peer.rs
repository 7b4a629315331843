//! What a runtime and a plugin know of each other.

pub mod defaults;
pub mod plugin_id;
pub mod version;
