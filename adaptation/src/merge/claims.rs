use std::collections::btree_map::{Entry, OccupiedEntry};
use std::convert::Infallible;

use nri_proto::{FieldOwners, Owner, Owners, PluginId};
use smallvec::SmallVec;

use super::Conflict;
use super::Touch;
use super::touch::ClaimKind;
use crate::limits;

/// The owner of each claimed field, for the length of one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Claims(Owners);

impl Claims {
    /// Lets `claim` make claims for a plugin, and takes all of them back if `claim` fails.
    pub(super) fn all_or_none<'a, T, E>(
        &mut self,
        plugin: &'a PluginId,
        claim: impl FnOnce(&mut Claiming<'_, 'a>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut claiming = Claiming { claims: self, plugin, made: SmallVec::new() };
        let result = claim(&mut claiming);
        if result.is_err() {
            claiming.give_back_to(0);
        }
        result
    }

    /// Returns the owners of all claims so far.
    pub(super) fn owners(&self) -> &Owners {
        &self.0
    }

    /// Returns the owners, at the end of the request.
    pub(super) fn into_owners(self) -> Owners {
        self.0
    }

    /// Lets `change` change the claims on a container. A container without claims gets no table, so
    /// that taking claims back restores the former value.
    fn of_container<T>(&mut self, container: &str, change: impl FnOnce(&mut FieldOwners) -> T) -> T {
        let containers = &mut self.0.containers;
        if let Some(fields) = containers.get_mut(container) {
            let result = change(fields);
            if *fields == FieldOwners::default() {
                containers.remove(container);
            }
            return result;
        }
        let mut fields = FieldOwners::default();
        let result = change(&mut fields);
        if fields != FieldOwners::default() {
            containers.insert(container.to_owned(), fields);
        }
        result
    }
}

/// The claims of one reply, while they are being made.
pub(super) struct Claiming<'c, 'a> {
    claims: &'c mut Claims,
    plugin: &'a PluginId,
    /// The claims made so far. Most replies make few claims, which fit inline without an
    /// allocation.
    made: SmallVec<[MadeClaim<'a>; 16]>,
}

/// A claim that was made, and the former owner of the field.
struct MadeClaim<'a> {
    container: &'a str,
    touch: Touch<'a>,
    before: Option<Owner>,
}

impl<'a> Claiming<'_, 'a> {
    pub(super) fn plugin(&self) -> &'a PluginId {
        self.plugin
    }

    /// Claims every field in `touches`, or none of them.
    pub(super) fn claim(&mut self, container: &'a str, touches: &[Touch<'a>]) -> Result<(), Conflict> {
        let start = self.made.len();
        let result = self.claim_each(container, touches);
        if result.is_err() {
            self.give_back_to(start);
        }
        result
    }

    fn claim_each(&mut self, container: &'a str, touches: &[Touch<'a>]) -> Result<(), Conflict> {
        let Self { claims, plugin, made } = self;
        made.reserve(touches.len());
        claims.of_container(container, |fields| {
            for &touch in touches.iter().filter(|touch| touch.act != ClaimKind::Pass) {
                match change_owner(fields, touch, |now| claim(plugin, touch.act, now)) {
                    Ok(before) => made.push(MadeClaim { container, touch, before }),
                    Err(owner) => {
                        let (container, key) = (limits::cut(container), limits::cut(touch.key));
                        return Err(Conflict { container, field: touch.field, key, claimer: plugin.clone(), owner });
                    }
                }
            }
            Ok(())
        })
    }

    fn give_back_to(&mut self, start: usize) {
        for MadeClaim { container, touch, before } in self.made.drain(start..).rev() {
            self.claims.of_container(container, |fields| {
                let Ok(_) = change_owner::<Infallible>(fields, touch, |_| Ok(before));
            });
        }
    }
}

/// Returns the owner of a field after a plugin's claim, or an error with the plugin that owns it
/// already.
fn claim(plugin: &PluginId, act: ClaimKind, now: Option<&Owner>) -> Result<Option<Owner>, String> {
    match (act, now) {
        (ClaimKind::Claim, Some(owner)) => {
            let first = owner.plugins().next().unwrap_or_default();
            let may_claim = owner.is_removed() && first == plugin.as_str();
            if may_claim { Ok(Some(Owner::of(plugin))) } else { Err(first.to_owned()) }
        }
        (ClaimKind::Claim | ClaimKind::Share, None) => Ok(Some(Owner::of(plugin))),
        (ClaimKind::Share, Some(owner)) => Ok(Some(owner.and(plugin))),
        (ClaimKind::Clear, _) => Ok(Some(Owner::of_removed(plugin))),
        (ClaimKind::ClearIfSet, Some(owner)) if !owner.is_removed() => Ok(Some(Owner::of_removed(plugin))),
        (ClaimKind::ClearIfSet | ClaimKind::Pass, now) => Ok(now.cloned()),
    }
}

/// Replaces the owner of the touched field by what `change` returns. Returns the former owner.
fn change_owner<E>(
    fields: &mut FieldOwners,
    touch: Touch<'_>,
    change: impl FnOnce(Option<&Owner>) -> Result<Option<Owner>, E>,
) -> Result<Option<Owner>, E> {
    let Touch { field, key, act: _ } = touch;
    if !field.has_entries() {
        return change_entry(fields.simple.entry(field), change);
    }
    let mut owners = occupied(fields.compound.entry(field));
    let before = change_entry(owners.get_mut().entries.entry(key.to_owned()), change);
    if owners.get().entries.is_empty() {
        owners.remove();
    }
    before
}

/// Returns the occupied entry of a table, after inserting an empty value if the entry is vacant.
fn occupied<K: Ord, V: Default>(entry: Entry<'_, K, V>) -> OccupiedEntry<'_, K, V> {
    match entry {
        Entry::Occupied(entry) => entry,
        Entry::Vacant(entry) => entry.insert_entry(V::default()),
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
