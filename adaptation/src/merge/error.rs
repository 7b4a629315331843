use nri_proto::quote::quoted;
use nri_proto::{Field, PluginId};

/// Two plugins set the same field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("plugins {} and {} both tried to set {field} {key}", quoted(claimer.as_str()), quoted(owner))]
pub struct Conflict {
    /// The container that the field belongs to.
    pub container: String,
    /// The field that both plugins set.
    pub field: Field,
    /// The key of the entry, such as the name of an environment variable. Empty if the field has no
    /// entries.
    pub key: String,
    /// The plugin that set the field second.
    pub claimer: PluginId,
    /// The plugin that set the field first. The same as `claimer` if one plugin set one entry
    /// twice.
    pub owner: String,
}

/// Why a reply cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// Two plugins set the same field.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// A plugin updates the container that is being created, which does not exist yet.
    #[error("plugin {} asked update of {} during creation", quoted(plugin.as_str()), quoted(container))]
    UpdateDuringCreation {
        /// The plugin that asked for the update.
        plugin: PluginId,
        /// The id of the container.
        container: String,
    },
}
