//! The plugins that own fields of containers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Field, Unknown};
use crate::peer::plugin_id::PluginId;

/// The plugins that own fields of containers (`OwningPlugins` on the wire).
///
/// ```
/// use nri_proto::{Field, Owner, Owners, PluginId, api};
///
/// let plugin: PluginId = "10-a".parse()?;
/// let mut owners = Owners::default();
/// let fields = owners.containers.entry("9a27".to_owned()).or_default();
/// fields.simple.insert(Field::Args, Owner::of(&plugin));
/// let env = fields.compound.entry(Field::Env).or_default();
/// env.entries.insert("DEBUG".to_owned(), Owner::of_removed(&plugin));
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
    /// The owners of the fields of each container, by the id of the container (`owners` on the
    /// wire).
    pub containers: BTreeMap<String, FieldOwners>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl Owners {
    /// Returns the owner of a field of a container, or of the entry `key` if the field has entries.
    pub fn owner(&self, container: &str, field: Field, key: &str) -> Option<&Owner> {
        self.containers.get(container)?.owner(field, key)
    }
}

/// The plugins that own fields of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldOwners {
    /// The owners of fields without entries.
    pub simple: BTreeMap<Field, Owner>,
    /// The owners of the entries of fields.
    pub compound: BTreeMap<Field, EntryOwners>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl FieldOwners {
    /// Returns the owner of a field, or of the entry `key` if the field has entries.
    pub fn owner(&self, field: Field, key: &str) -> Option<&Owner> {
        if field.has_entries() { self.compound.get(&field)?.entries.get(key) } else { self.simple.get(&field) }
    }
}

/// The plugins that own entries of one field (`CompoundFieldOwners` on the wire).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryOwners {
    /// The owner of each entry, by the key of the entry (`owners` on the wire).
    pub entries: BTreeMap<String, Owner>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

/// The owner of a field or entry.
///
/// The owner is the plugin that set the field, all plugins that added to it, or the plugin that
/// removed it. Cloning is cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The ids of the plugins, separated by commas. A [`PluginId`] contains no comma.
    plugins: Arc<str>,
    removed: bool,
}

impl Owner {
    /// Creates the owner for a plugin that set the field.
    pub fn of(plugin: &PluginId) -> Self {
        Self { plugins: plugin.clone().into(), removed: false }
    }

    /// Creates the owner for a plugin that removed the field.
    pub fn of_removed(plugin: &PluginId) -> Self {
        Self { plugins: plugin.clone().into(), removed: true }
    }

    /// Returns this owner and another plugin, for a field that several plugins can add to.
    pub fn and(&self, plugin: &PluginId) -> Self {
        Self { plugins: format!("{},{plugin}", self.plugins).into(), removed: self.removed }
    }

    /// Returns the ids of the plugins, such as `10-logger`, in the order in which they were called.
    pub fn plugins(&self) -> impl Iterator<Item = &str> {
        self.plugins.split(',')
    }

    /// Returns whether the field was removed and not set again.
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
