use std::borrow::Cow;
use std::collections::HashSet;

use nri_proto::{Adjustment, Container, Field, LinuxAdjustment, PluginId, spelling};

use super::Conflict;

/// How the container spells the keys that have several spellings: the paths of mounts and devices,
/// and the names of kernel parameters.
///
/// Every spelling that a plugin uses is replaced by one spelling before the key is claimed, changed
/// and shown. Otherwise two plugins could both own the same thing. That spelling is the container's
/// own, so that the runtime finds the entry, or the canonical spelling if the container does not
/// have the key.
#[derive(Clone, Debug, Default)]
pub(super) struct Spellings {
    mounts: OfContainer,
    devices: OfContainer,
    sysctl: OfContainer,
}

/// The keys that the container does not spell canonically, with the canonical spelling first.
/// `None` until a plugin changes such a key.
type OfContainer = Option<Vec<(String, String)>>;

/// Any two values are equal: the spellings follow from the container, and are only cached here.
impl PartialEq for Spellings {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

type Spell = fn(&str) -> Cow<'_, str>;

impl Spellings {
    /// Respells the keys in an adjustment as the container spells them. If a plugin gives one
    /// kernel parameter two values under two spellings, the plugin conflicts with itself.
    pub(super) fn apply(
        &mut self,
        container: &Container,
        plugin: &PluginId,
        adjustment: &mut Adjustment,
    ) -> Result<(), Conflict> {
        if !adjustment.mounts.is_empty() {
            let all = container.mounts.iter().map(|mount| &*mount.destination);
            let known = self.mounts.get_or_insert_with(|| odd(all, spelling::path));
            adjustment.mounts.respell(|key| respelled(key, known, spelling::path));
        }
        let Some(LinuxAdjustment { devices, sysctl, .. }) = &mut adjustment.linux else { return Ok(()) };
        if !devices.is_empty() {
            let all = container.linux.iter().flat_map(|linux| &linux.devices).map(|device| &*device.path);
            let known = self.devices.get_or_insert_with(|| odd(all, spelling::path));
            devices.respell(|key| respelled(key, known, spelling::path));
        }
        if sysctl.is_empty() {
            return Ok(());
        }
        let all = container.linux.iter().flat_map(|linux| linux.sysctl.keys()).map(String::as_str);
        let known = self.sysctl.get_or_insert_with(|| odd(all, spelling::sysctl));
        let in_conflict = |key| Conflict {
            container: container.id.clone(),
            field: Field::Sysctl,
            key,
            claimer: plugin.clone(),
            owner: plugin.to_string(),
        };
        sysctl.respell(|key| respelled(key, known, spelling::sysctl)).map_err(in_conflict)
    }
}

/// Returns the keys that are not spelled canonically, without duplicates, as pairs of canonical
/// spelling and key.
fn odd<'k>(keys: impl Iterator<Item = &'k str> + Clone, spell: Spell) -> Vec<(String, String)> {
    let is_odd = |key: &&str| matches!(spell(key), Cow::Owned(_));
    if !keys.clone().any(|key| is_odd(&key)) {
        return Vec::new();
    }
    let mut plain: HashSet<String> = keys.clone().filter(|key| !is_odd(key)).map(str::to_owned).collect();
    let is_first = |(spelled, _): &(String, String)| plain.insert(spelled.clone());
    keys.filter(is_odd).map(|key| (spell(key).into_owned(), key.to_owned())).filter(is_first).collect()
}

/// Returns the spelling to use for a key, or `None` if the key has that spelling already.
fn respelled(key: &str, of_container: &[(String, String)], spell: Spell) -> Option<String> {
    let plain = spell(key);
    if let Some((_, spelled)) = of_container.iter().find(|(other, _)| *other == plain) {
        return (spelled != key).then(|| spelled.clone());
    }
    match plain {
        Cow::Borrowed(_) => None,
        Cow::Owned(plain) => Some(plain),
    }
}
