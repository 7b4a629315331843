use std::collections::btree_map::Entry;
use std::convert::Infallible;

use nri_proto::{FieldOwners, Owner, Owners, PluginId};

use super::touch::Act;
use super::{Conflict, Touch};

/// Who has claimed what, for the length of one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Claims(Owners);

impl Claims {
    /// Lets `claim` make claims for a plugin, and takes all of them back if it fails.
    pub(super) fn all_or_none<'a, T, E>(
        &mut self,
        plugin: &'a PluginId,
        claim: impl FnOnce(&mut Claiming<'_, 'a>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut claiming = Claiming { claims: self, plugin, made: Vec::new() };
        let result = claim(&mut claiming);
        if result.is_err() {
            claiming.give_back_to(0);
        }
        result
    }

    /// Ends the request.
    pub(super) fn into_owners(self) -> Owners {
        self.0
    }

    /// Leaves no empty table behind, so that nothing is different from before.
    fn tidy(&mut self, container: &str) {
        let Some(fields) = self.0.containers.get_mut(container) else { return };
        fields.compound.retain(|_, owners| !owners.entries.is_empty());
        if fields.simple.is_empty() && fields.compound.is_empty() {
            self.0.containers.remove(container);
        }
    }
}

/// Claims that are being made.
pub(super) struct Claiming<'c, 'a> {
    claims: &'c mut Claims,
    plugin: &'a PluginId,
    made: Vec<Made<'a>>,
}

/// A claim that was made, and whose it was before.
struct Made<'a> {
    container: &'a str,
    touch: Touch<'a>,
    before: Option<Owner>,
}

impl<'a> Claiming<'_, 'a> {
    pub(super) fn plugin(&self) -> &'a PluginId {
        self.plugin
    }

    /// Claims all that is touched, or nothing.
    pub(super) fn claim(&mut self, container: &'a str, touches: &[Touch<'a>]) -> Result<(), Conflict> {
        let start = self.made.len();
        let result = self.claim_each(container, touches);
        if result.is_err() {
            self.give_back_to(start);
        }
        self.claims.tidy(container);
        result
    }

    fn claim_each(&mut self, container: &'a str, touches: &[Touch<'a>]) -> Result<(), Conflict> {
        let claimer =
            Claimer { plugin: self.plugin, set: Owner::of(self.plugin), removed: Owner::of_removed(self.plugin) };
        let fields = self.claims.0.containers.entry(container.to_owned()).or_default();
        self.made.reserve(touches.len());
        for &touch in touches.iter().filter(|touch| touch.act != Act::Pass) {
            match change_owner(fields, touch, |now| claimer.claim(touch.act, now)) {
                Ok(before) => self.made.push(Made { container, touch, before }),
                Err(owner) => {
                    let (container, key) = (container.to_owned(), touch.key.to_owned());
                    return Err(Conflict { container, field: touch.field, key, claimer: self.plugin.clone(), owner });
                }
            }
        }
        Ok(())
    }

    fn give_back_to(&mut self, start: usize) {
        for Made { container, touch, before } in self.made.drain(start..).rev() {
            if let Some(fields) = self.claims.0.containers.get_mut(container) {
                let Ok(_) = change_owner::<Infallible>(fields, touch, |_| Ok(before));
            }
            self.claims.tidy(container);
        }
    }
}

/// The plugin that claims, and the owners that it makes.
struct Claimer<'a> {
    plugin: &'a PluginId,
    set: Owner,
    removed: Owner,
}

impl Claimer<'_> {
    /// Returns who owns it after this, or who forbids it.
    fn claim(&self, act: Act, now: Option<&Owner>) -> Result<Option<Owner>, String> {
        match (act, now) {
            (Act::Claim, Some(owner)) => {
                let first = owner.plugins().next().unwrap_or_default();
                let may_claim = owner.is_removed() && first == self.plugin.as_str();
                if may_claim { Ok(Some(self.set.clone())) } else { Err(first.to_owned()) }
            }
            (Act::Claim | Act::Share, None) => Ok(Some(self.set.clone())),
            (Act::Share, Some(owner)) => Ok(Some(owner.and(self.plugin))),
            (Act::Clear, _) => Ok(Some(self.removed.clone())),
            (Act::ClearIfSet, Some(owner)) if !owner.is_removed() => Ok(Some(self.removed.clone())),
            (Act::ClearIfSet | Act::Pass, now) => Ok(now.cloned()),
        }
    }
}

/// Gives what is touched the owner that `change` says, and returns the one it had.
fn change_owner<E>(
    fields: &mut FieldOwners,
    touch: Touch<'_>,
    change: impl FnOnce(Option<&Owner>) -> Result<Option<Owner>, E>,
) -> Result<Option<Owner>, E> {
    let Touch { field, key, act: _ } = touch;
    if field.has_entries() {
        change_entry(fields.compound.entry(field).or_default().entries.entry(key.to_owned()), change)
    } else {
        change_entry(fields.simple.entry(field), change)
    }
}

fn change_entry<K: Ord, E>(
    entry: Entry<'_, K, Owner>,
    change: impl FnOnce(Option<&Owner>) -> Result<Option<Owner>, E>,
) -> Result<Option<Owner>, E> {
    match entry {
        Entry::Vacant(entry) => {
            if let Some(owner) = change(None)? {
                entry.insert(owner);
            }
            Ok(None)
        }
        Entry::Occupied(mut entry) => Ok(Some(match change(Some(entry.get()))? {
            Some(owner) => entry.insert(owner),
            None => entry.remove(),
        })),
    }
}
