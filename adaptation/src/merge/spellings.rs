use std::borrow::Cow;
use std::collections::HashSet;

use nri_proto::{Adjustment, Container, Field, LinuxAdjustment, PluginId, spelling};

use super::Conflict;

/// The spellings under which the container has what can be spelled in several ways: where mounts
/// and devices are, and what kernel parameters are called.
///
/// Whatever a plugin calls one of these, it is claimed, changed and shown under one name, or two
/// plugins could both own it. The name is the container's own, so that whoever makes the changes
/// finds it there, or else the plain one.
#[derive(Clone, Debug, Default)]
pub(super) struct Spellings {
    mounts: OfContainer,
    devices: OfContainer,
    sysctl: OfContainer,
}

/// What the container does not spell plainly, by its plain spelling. There once somebody changed
/// any.
type OfContainer = Option<Vec<(String, String)>>;

/// They follow from the container, whether or not somebody has looked for them.
impl PartialEq for Spellings {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

type Spell = fn(&str) -> Cow<'_, str>;

impl Spellings {
    /// Spells what an adjustment changes as the container does. If a plugin calls one kernel
    /// parameter by two names and gives it two values, it is in conflict with itself.
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

/// What is not spelled plainly, and the first spelling of each.
fn odd<'k>(keys: impl Iterator<Item = &'k str> + Clone, spell: Spell) -> Vec<(String, String)> {
    let is_odd = |key: &&str| matches!(spell(key), Cow::Owned(_));
    if !keys.clone().any(|key| is_odd(&key)) {
        return Vec::new();
    }
    let mut plain: HashSet<String> = keys.clone().filter(|key| !is_odd(key)).map(str::to_owned).collect();
    let is_first = |(spelled, _): &(String, String)| plain.insert(spelled.clone());
    keys.filter(is_odd).map(|key| (spell(key).into_owned(), key.to_owned())).filter(is_first).collect()
}

/// Returns how a key is to be spelled, unless it is spelled so.
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
