use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Field, Unknown};
use crate::peer::plugin_id::PluginId;

/// Which plugin owns what, by container (`OwningPlugins` on the wire).
///
/// ```
/// use nri_proto::{Field, Owner, Owners, PluginId, api};
///
/// let plugin: PluginId = "10-a".parse()?;
/// let mut owners = Owners::default();
/// let fields = owners.containers.entry("9a27".to_owned()).or_default();
/// fields.simple.insert(Field::Args, Owner::of(&plugin));
/// fields.compound.entry(Field::Env).or_default().entries.insert("DEBUG".to_owned(), Owner::of_removed(&plugin));
///
/// assert!(owners.owner("9a27", Field::Args, "").unwrap().plugins().eq(["10-a"]));
/// assert!(owners.owner("9a27", Field::Env, "DEBUG").unwrap().is_removed());
/// assert_eq!(owners.owner("9a27", Field::Env, "PATH"), None);
///
/// let message = api::OwningPlugins::from(owners.clone());
/// assert_eq!(Owners::from(message), owners);
/// # Ok::<(), nri_proto::plugin_id::PluginIdError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// By the runtime's id of the container (`owners` on the wire).
    pub containers: BTreeMap<String, FieldOwners>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl Owners {
    /// Returns who owns a field of a container. The key is that of the entry, and ignored for a field without entries.
    pub fn owner(&self, container: &str, field: Field, key: &str) -> Option<&Owner> {
        self.containers.get(container)?.owner(field, key)
    }
}

/// Which plugin owns what in one container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldOwners {
    /// Fields that are one thing.
    pub simple: BTreeMap<Field, Owner>,
    /// Fields that have entries.
    pub compound: BTreeMap<Field, EntryOwners>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl FieldOwners {
    /// Returns who owns a field. The key is that of the entry, and ignored for a field without entries.
    pub fn owner(&self, field: Field, key: &str) -> Option<&Owner> {
        if field.has_entries() { self.compound.get(&field)?.entries.get(key) } else { self.simple.get(&field) }
    }
}

/// Which plugin owns which entry of one field (`CompoundFieldOwners` on the wire).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryOwners {
    /// By the key of the entry (`owners` on the wire).
    pub entries: BTreeMap<String, Owner>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

/// Who owns a field: the plugin that set it, all plugins that added to it, or the one that removed it.
///
/// A clone is cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Separated by commas, which no [`PluginId`] has.
    plugins: Arc<str>,
    removed: bool,
}

impl Owner {
    /// The plugin that set it.
    pub fn of(plugin: &PluginId) -> Self {
        Self { plugins: plugin.clone().into(), removed: false }
    }

    /// The plugin that removed it, and may set it.
    pub fn of_removed(plugin: &PluginId) -> Self {
        Self { plugins: plugin.clone().into(), removed: true }
    }

    /// Adds another plugin, for what several may add to.
    pub fn and(&self, plugin: &PluginId) -> Self {
        Self { plugins: format!("{},{plugin}", self.plugins).into(), removed: self.removed }
    }

    /// Returns the plugins, as `10-logger`, in the order in which they were asked.
    pub fn plugins(&self) -> impl Iterator<Item = &str> {
        self.plugins.split(',')
    }

    /// Says whether it was removed and not set again.
    pub fn is_removed(&self) -> bool {
        self.removed
    }

    pub(crate) fn new(plugins: &str, removed: bool) -> Self {
        Self { plugins: plugins.into(), removed }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.plugins
    }
}
