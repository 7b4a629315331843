use std::collections::{BTreeSet, HashMap};

use nri_proto::Field;
use nri_proto::api::{CreateContainerResponse, LinuxNetDevice};
use nri_tests::merging::{Case, OWN};

use crate::merge::merged::{Done, Merged, Seen};

/// The keys of maps that a plugin removes and does not set. For Go, each of them is a marker in the
/// result, and nothing else.
#[derive(Default)]
pub(super) struct LoneRemovals {
    annotations: BTreeSet<String>,
    sysctl: BTreeSet<String>,
    net_devices: BTreeSet<String>,
}

impl LoneRemovals {
    pub(super) fn take_from(case: &mut Case) -> Self {
        let mut removals = Self::default();
        if let Case::Create(_, replies) = case {
            replies.iter_mut().for_each(|reply| removals.take_from_reply(reply));
        }
        removals
    }

    fn take_from_reply(&mut self, reply: &mut CreateContainerResponse) {
        let Some(adjustment) = reply.adjust.as_mut() else { return };
        take(&mut adjustment.annotations, &mut self.annotations);
        if let Some(linux) = adjustment.linux.as_mut() {
            take(&mut linux.sysctl, &mut self.sysctl);
            take(&mut linux.net_devices, &mut self.net_devices);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.annotations.is_empty() && self.sysctl.is_empty() && self.net_devices.is_empty()
    }

    /// Adds the markers.
    pub(super) fn mark(&self, merged: &mut Merged) {
        let Ok(Done { adjustment: Some(adjustment), .. }) = &mut merged.result else { return };
        mark(&self.annotations, &mut adjustment.annotations);
        let linux = adjustment.linux.mut_or_insert_default();
        mark(&self.sysctl, &mut linux.sysctl);
        mark::<LinuxNetDevice>(&self.net_devices, &mut linux.net_devices);
    }

    /// Removes everything about these keys.
    pub(super) fn leave_out(&self, merged: &mut Merged) {
        for seen in &mut merged.seen {
            let Seen::Container(container) = seen else { continue };
            forget(&self.annotations, &mut container.annotations);
            let linux = container.linux.mut_or_insert_default();
            forget(&self.sysctl, &mut linux.sysctl);
            forget(&self.net_devices, &mut linux.net_devices);
        }
        let Ok(Done { adjustment: Some(adjustment), owners: Some(owners), .. }) = &mut merged.result else { return };
        forget(&self.annotations, &mut adjustment.annotations);
        let linux = adjustment.linux.mut_or_insert_default();
        forget(&self.sysctl, &mut linux.sysctl);
        forget(&self.net_devices, &mut linux.net_devices);

        let Some(fields) = owners.owners.get_mut(OWN) else { return };
        let fields_of = [
            (Field::Annotations, &self.annotations),
            (Field::Sysctl, &self.sysctl),
            (Field::LinuxNetDevices, &self.net_devices),
        ];
        for (field, keys) in fields_of {
            if let Some(entries) = fields.compound.get_mut(&field.number()) {
                forget(keys, &mut entries.owners);
            }
        }
    }
}

fn take<T>(map: &mut HashMap<String, T>, removals: &mut BTreeSet<String>) {
    let removed = map.keys().filter_map(|key| key.strip_prefix('-'));
    let is_set = |key: &str| !key.starts_with('-') && map.contains_key(key);
    let alone: Vec<String> = removed.filter(|key| !is_set(key)).map(str::to_owned).collect();
    for key in alone {
        map.remove(&marker(&key));
        removals.insert(key);
    }
}

fn mark<T: Default>(removals: &BTreeSet<String>, map: &mut HashMap<String, T>) {
    map.extend(removals.iter().map(|key| (marker(key), T::default())));
}

fn forget<T>(keys: &BTreeSet<String>, map: &mut HashMap<String, T>) {
    map.retain(|key, _| !keys.contains(key) && !key.strip_prefix('-').is_some_and(|key| keys.contains(key)));
}

fn marker(key: &str) -> String {
    format!("-{key}")
}
