use std::collections::HashMap;

use nri_proto::api::{Container, ContainerAdjustment, OwningPlugins};
use nri_proto::{Field, spelling};
use nri_tests::merging::Case;

use crate::merge::merged::{Done, Merged, Seen};

/// The characters that make spellings differ, and replacements that occur in no key.
const LETTERS: [(char, &str); 2] = [('/', "\u{e000}"), ('.', "\u{e001}")];

/// Returns whether our result depends on recognizing several spellings of one key.
pub(super) fn matter(case: &Case) -> bool {
    let mut apart = case.clone();
    if !tell_apart(&mut apart) {
        return false;
    }
    let mut merged = Merged::of(&apart);
    name_again(&mut merged);
    merged != Merged::of(case)
}

/// For Go, each spelling is a different key. So spellings that are not canonical are renamed to
/// keys with a single spelling. Returns whether there are any.
pub(super) fn tell_apart(case: &mut Case) -> bool {
    let Case::Create(request, replies) = case else { return false };
    let mut renames = Renames { name: rename, is_any: false };
    if let Some(container) = request.container.as_mut() {
        renames.container(container);
    }
    for adjustment in replies.iter_mut().filter_map(|reply| reply.adjust.as_mut()) {
        renames.adjustment(adjustment);
    }
    renames.is_any
}

/// Restores the original names.
pub(super) fn name_again(merged: &mut Merged) {
    let mut renames = Renames { name: |_, key| given_back(key), is_any: false };
    for seen in &mut merged.seen {
        if let Seen::Container(container) = seen {
            renames.container(container);
        }
    }
    match &mut merged.result {
        Err(error) => *error = given_back(error).unwrap_or_else(|| error.clone()),
        Ok(Done { adjustment, updates: _, owners }) => {
            adjustment.iter_mut().for_each(|adjustment| renames.adjustment(adjustment));
            owners.iter_mut().for_each(|owners| renames.owners(owners));
        }
    }
}

/// The kind of a key, which determines its spellings.
#[derive(Clone, Copy)]
enum Kind {
    Path,
    Sysctl,
}

/// Returns another name for a key whose spelling is not canonical.
fn rename(kind: Kind, key: &str) -> Option<String> {
    let is_plain = match kind {
        Kind::Path => spelling::path(key) == key,
        Kind::Sysctl => spelling::sysctl(key) == key,
    };
    let renamed = |name: String, (letter, other): &(char, &str)| name.replace(*letter, other);
    (!is_plain).then(|| LETTERS.iter().fold(key.to_owned(), renamed))
}

fn given_back(text: &str) -> Option<String> {
    let renamed = |text: String, (letter, other): &(char, &str)| text.replace(other, &letter.to_string());
    let name = LETTERS.iter().fold(text.to_owned(), renamed);
    (name != text).then_some(name)
}

struct Renames {
    name: fn(Kind, &str) -> Option<String>,
    is_any: bool,
}

impl Renames {
    fn container(&mut self, container: &mut Container) {
        container.mounts.iter_mut().for_each(|mount| self.key(Kind::Path, &mut mount.destination));
        if let Some(linux) = container.linux.as_mut() {
            linux.devices.iter_mut().for_each(|device| self.key(Kind::Path, &mut device.path));
            self.map(Kind::Sysctl, &mut linux.sysctl);
        }
    }

    fn adjustment(&mut self, adjustment: &mut ContainerAdjustment) {
        adjustment.mounts.iter_mut().for_each(|mount| self.key(Kind::Path, &mut mount.destination));
        if let Some(linux) = adjustment.linux.as_mut() {
            linux.devices.iter_mut().for_each(|device| self.key(Kind::Path, &mut device.path));
            self.map(Kind::Sysctl, &mut linux.sysctl);
        }
    }

    fn owners(&mut self, owners: &mut OwningPlugins) {
        for fields in owners.owners.values_mut() {
            for (field, kind) in
                [(Field::Mounts, Kind::Path), (Field::Devices, Kind::Path), (Field::Sysctl, Kind::Sysctl)]
            {
                if let Some(entries) = fields.compound.get_mut(&field.number()) {
                    self.map(kind, &mut entries.owners);
                }
            }
        }
    }

    /// Renames a key. The dash in front of a removed key is not part of the key.
    fn key(&mut self, kind: Kind, key: &mut String) {
        let (dash, name) = key.strip_prefix('-').map_or(("", key.as_str()), |name| ("-", name));
        if let Some(name) = (self.name)(kind, name) {
            *key = [dash, &name].concat();
            self.is_any = true;
        }
    }

    fn map<T>(&mut self, kind: Kind, map: &mut HashMap<String, T>) {
        let renamed = std::mem::take(map).into_iter().map(|(mut key, value)| {
            self.key(kind, &mut key);
            (key, value)
        });
        *map = renamed.collect();
    }
}
