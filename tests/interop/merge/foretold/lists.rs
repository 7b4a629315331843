use std::collections::{BTreeMap, BTreeSet};

use nri_adaptation::merge::Conflict;
use nri_proto::Field;
use nri_proto::api::{ContainerAdjustment, LinuxNamespace};
use nri_tests::merging::{Case, OWN, PLUGINS};

use crate::merge::merged::{Done, Merged};

/// For Go, the marker of a removed mount is a mount, which a later plugin can remove with one more
/// dash, and then owns. Returns whether the case has such a mount.
pub(super) fn drop_dashed_mounts(case: &Case, merged: &mut Merged) -> bool {
    let Ok(Done { adjustment: Some(adjustment), owners: Some(owners), .. }) = &mut merged.result else { return false };
    let (mut markers, mut dropped) = (BTreeSet::new(), BTreeMap::new());
    for (plugin, adjusted) in adjustments(case) {
        let keys = || adjusted.mounts.iter().map(|mount| &*mount.destination);
        let removed: BTreeSet<&str> = keys().filter_map(|key| key.strip_prefix('-')).collect();
        let set: BTreeSet<&str> = keys().filter(|key| !key.starts_with('-')).collect();
        for marker in markers.extract_if(.., |marker: &&str| removed.contains(marker)) {
            dropped.insert(marker.to_owned(), format!("-{plugin}"));
        }
        markers.extend(keys().filter(|key| key.strip_prefix('-').is_some_and(|key| !set.contains(key))));
    }
    adjustment.mounts.retain(|mount| !mount.destination.starts_with('-') || markers.contains(&*mount.destination));
    let differs = !dropped.is_empty();
    if differs {
        let fields = owners.owners.entry(OWN.to_owned()).or_default();
        fields.compound.entry(Field::Mounts.number()).or_default().owners.extend(dropped);
    }
    differs
}

/// Go claims namespaces in the order of the list. Returns whether another conflict is then the
/// first.
pub(super) fn tell_first_namespace(case: &Case, merged: &mut Merged) -> bool {
    let Some(told) = merged.result.as_mut().err().filter(|error| error.contains(" set Namespace ")) else {
        return false;
    };
    let Some(first) = first_namespace(case) else { return false };
    let differs = *told != first;
    *told = first;
    differs
}

fn first_namespace(case: &Case) -> Option<String> {
    let mut owners = BTreeMap::new();
    for (plugin, adjusted) in adjustments(case) {
        for LinuxNamespace { type_, .. } in &adjusted.linux.namespaces {
            let key = type_.strip_prefix('-').unwrap_or(type_);
            if let Some(owner) = owners.insert(key, plugin) {
                let (claimer, owner) = (plugin.parse().unwrap(), owner.to_owned());
                let (container, key) = (OWN.to_owned(), key.to_owned());
                return Some(Conflict { container, field: Field::Namespace, key, claimer, owner }.to_string());
            }
        }
    }
    None
}

fn adjustments(case: &Case) -> impl Iterator<Item = (&'static str, &ContainerAdjustment)> {
    let replies = match case {
        Case::Create(_, replies) => replies.as_slice(),
        Case::Update(..) | Case::Stop(..) => &[],
    };
    PLUGINS.into_iter().zip(replies).filter_map(|(plugin, reply)| Some((plugin, reply.adjust.as_ref()?)))
}
