//! Adds entries with keys that are unlikely in practice: markers with values, empty keys, nearly
//! equal keys.

use std::collections::HashMap;

use nri_proto::api::{
    CDIDevice, Container, ContainerAdjustment, ContainerUpdate, HugepageLimit, KeyValue, LinuxDevice, LinuxNamespace,
    LinuxResources, Mount, POSIXRlimit,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::{Case, PLUGINS};

/// The keys of one row are used together in a case, in one list or in two. Some of them are also
/// names of other entries.
const KEYS: [[&str; 4]; 9] = [
    ["", "-", "--", "---"],
    ["a", "-a", "--a", "---a"],
    ["b", "-b", "-b/", "b/"],
    ["/e", "/e/", "-/e//", "//e"],
    ["/e", "/./e", "/d/../e", "-/e/."],
    ["f.g", "f/g", "-f/g", "f..g"],
    ["a", "a=", "a=b", "-a=b"],
    ["=", "-=", "=a", ""],
    ["\u{e4}", "-\u{e4}", "a\u{308}", "\n"],
];

/// One such entry, in a reply or in the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Oddity {
    reply: usize,
    list: u8,
    place: usize,
    key: &'static str,
}

/// Generates such entries, in most cases none.
pub(super) fn oddities() -> impl Strategy<Value = Vec<Oddity>> {
    let some = (select(&KEYS[..]), vec(any::<u8>(), 1..3)).prop_flat_map(|(keys, lists)| {
        let oddity = (0..=PLUGINS.len(), select(lists), 0..4usize, select(keys.to_vec()));
        vec(oddity.prop_map(|(reply, list, place, key)| Oddity { reply, list, place, key }), 1..12)
    });
    prop_oneof![2 => Just(vec![]), 1 => some]
}

impl Oddity {
    pub(super) fn put_into(self, case: &mut Case) {
        match case {
            Case::Create(request, replies) => match replies.get_mut(self.reply) {
                Some(reply) if self.list < 0xc0 => self.put_into_adjustment(reply.adjust.mut_or_insert_default()),
                Some(reply) => self.put_into_updates(&mut reply.update),
                None => self.put_into_container(request.container.mut_or_insert_default()),
            },
            Case::Update(request, replies) => match replies.get_mut(self.reply) {
                Some(reply) => self.put_into_updates(&mut reply.update),
                None => self.put_into_resources(request.linux_resources.mut_or_insert_default()),
            },
            Case::Stop(_, replies) => {
                if let Some(reply) = replies.get_mut(self.reply) {
                    self.put_into_updates(&mut reply.update);
                }
            }
        }
    }

    fn put_into_adjustment(self, adjustment: &mut ContainerAdjustment) {
        match self.list % 10 {
            0 => self.put_into_map(&mut adjustment.annotations),
            1 => self.put_into_list(&mut adjustment.mounts, mount),
            2 => self.put_into_list(&mut adjustment.env, |variable: &mut KeyValue| &mut variable.key),
            3 => self.put_into_list(&mut adjustment.rlimits, rlimit),
            4 => self.put_into_list(&mut adjustment.CDI_devices, |device: &mut CDIDevice| &mut device.name),
            list => {
                let linux = adjustment.linux.mut_or_insert_default();
                match list {
                    5 => self.put_into_list(&mut linux.devices, device),
                    6 => self.put_into_list(&mut linux.namespaces, namespace),
                    7 => self.put_into_map(&mut linux.sysctl),
                    8 => self.put_into_map(&mut linux.net_devices),
                    _ => self.put_into_resources(linux.resources.mut_or_insert_default()),
                }
            }
        }
    }

    fn put_into_container(self, container: &mut Container) {
        match self.list % 8 {
            0 => self.put_into_map(&mut container.annotations),
            1 => self.put_into_list(&mut container.mounts, mount),
            2 => self.put_into_list(&mut container.env, |variable| variable),
            3 => self.put_into_list(&mut container.rlimits, rlimit),
            list => {
                let linux = container.linux.mut_or_insert_default();
                match list {
                    4 => self.put_into_list(&mut linux.devices, device),
                    5 => self.put_into_list(&mut linux.namespaces, namespace),
                    6 => self.put_into_map(&mut linux.sysctl),
                    _ => self.put_into_map(&mut linux.net_devices),
                }
            }
        }
    }

    fn put_into_updates(self, updates: &mut [ContainerUpdate]) {
        let Some(update) = updates.get_mut(self.place) else { return };
        if self.list.is_multiple_of(4) {
            self.key.clone_into(&mut update.container_id);
        } else {
            self.put_into_resources(update.linux.mut_or_insert_default().resources.mut_or_insert_default());
        }
    }

    fn put_into_resources(self, resources: &mut LinuxResources) {
        if self.list.is_multiple_of(2) {
            self.put_into_map(&mut resources.unified);
        } else {
            self.put_into_list(&mut resources.hugepage_limits, |limit: &mut HugepageLimit| &mut limit.page_size);
        }
    }

    /// Gives an existing entry this key, or adds an entry.
    fn put_into_list<T: Default>(self, list: &mut Vec<T>, key: impl Fn(&mut T) -> &mut String) {
        if list.len() <= self.place {
            list.push(T::default());
        }
        let place = self.place.min(list.len() - 1);
        self.key.clone_into(key(&mut list[place]));
    }

    /// Gives an existing entry of a map this key, or adds an entry. The choice does not depend on
    /// the order of the map.
    fn put_into_map<T: Default>(self, map: &mut HashMap<String, T>) {
        let mut keys: Vec<String> = map.keys().cloned().collect();
        keys.sort_unstable();
        let value = keys.get(self.place).and_then(|key| map.remove(key)).unwrap_or_default();
        map.insert(self.key.to_owned(), value);
    }
}

fn mount(mount: &mut Mount) -> &mut String {
    &mut mount.destination
}

fn rlimit(rlimit: &mut POSIXRlimit) -> &mut String {
    &mut rlimit.type_
}

fn device(device: &mut LinuxDevice) -> &mut String {
    &mut device.path
}

fn namespace(namespace: &mut LinuxNamespace) -> &mut String {
    &mut namespace.type_
}
