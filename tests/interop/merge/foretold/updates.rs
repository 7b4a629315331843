use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use nri_adaptation::merge::{Conflict, Touch};
use nri_proto::api::{ContainerUpdate, LinuxResources};
use nri_proto::{Field, PluginId, Update};
use nri_tests::merging::{Case, OWN, PLUGINS};

use crate::merge::merged::{Done, Merged, Seen};

/// Go passes over limits of processes in updates. In their place it has each update of the
/// container itself set the limit that was asked for. Says whether that makes a difference.
pub(super) fn lose_pids(case: &mut Case) -> bool {
    let requested = match case {
        Case::Update(request, _) => request.linux_resources.pids.clone(),
        Case::Create(..) | Case::Stop(..) => None.into(),
    };
    let mut differs = false;
    for update in updates_of(case).into_iter().flatten() {
        let is_own = update.container_id == OWN;
        let Some(resources) = update.linux.as_mut().and_then(|linux| linux.resources.as_mut()) else { continue };
        let pids = if is_own { requested.clone() } else { None.into() };
        differs |= resources.pids != pids;
        resources.pids = pids;
    }
    differs
}

/// Takes out what is said about limits of processes in updates.
pub(super) fn leave_out_pids(merged: &mut Merged) {
    for seen in &mut merged.seen {
        if let Seen::Resources(resources) = seen {
            resources.pids.take();
        }
    }
    let Ok(Done { adjustment: _, updates, owners }) = &mut merged.result else { return };
    for resources in updates.iter_mut().filter_map(|update| update.linux.as_mut()?.resources.as_mut()) {
        resources.pids.take();
    }
    for (container, fields) in owners.iter_mut().flat_map(|owners| &mut owners.owners) {
        if container != OWN {
            fields.simple.remove(&Field::PidsLimit.number());
        }
    }
}

/// To Go an update of the container itself that sets nothing asks for nothing, until another one
/// sets something. Says whether there is one.
pub(super) fn forget_request(case: &Case, merged: &mut Merged) -> bool {
    let (Case::Update(_, replies), Ok(done)) = (case, &mut merged.result) else { return false };
    let mut own = replies.iter().flat_map(|reply| &reply.update).filter(|update| update.container_id == OWN).peekable();
    let sets_nothing = own.peek().is_some() && own.all(|update| update.linux.resources.is_none());
    if sets_nothing {
        let own = done.updates.last_mut().expect("the last one is that of the container itself");
        let (memory, cpu) = (Some(Default::default()).into(), Some(Default::default()).into());
        let nothing = LinuxResources { memory, cpu, ..LinuxResources::default() };
        own.linux.mut_or_insert_default().resources = Some(nothing).into();
    }
    sets_nothing
}

/// What is claimed by updates in Go, where one that is in conflict and may be keeps what it claimed
/// before.
#[derive(Default)]
pub(super) struct Claims {
    owners: BTreeMap<(String, Field, String), PluginId>,
    n_ignored: usize,
    by_luck: bool,
    refused: Option<String>,
}

impl Claims {
    /// Makes the claims in turn. An update that is in conflict and may be becomes one that sets
    /// nothing. One that may not be ends the case, once that can be the fault of such a one.
    pub(super) fn of(case: &mut Case) -> Self {
        let (mut claims, is_creation) = (Self::default(), matches!(case, Case::Create(..)));
        let Some((reply, update, conflict)) = claims.claim_until_refused(&mut updates_of(case), is_creation) else {
            return claims;
        };
        if claims.n_ignored > 0 {
            updates_of(case)[reply].truncate(update);
            match case {
                Case::Create(_, replies) => replies.truncate(reply + 1),
                Case::Update(_, replies) => replies.truncate(reply + 1),
                Case::Stop(_, replies) => replies.truncate(reply + 1),
            }
            claims.refused = Some(conflict.to_string());
        }
        claims
    }

    /// Returns which update of which reply is refused, and why.
    fn claim_until_refused(
        &mut self,
        replies: &mut [&mut Vec<ContainerUpdate>],
        is_creation: bool,
    ) -> Option<(usize, usize, Conflict)> {
        for (reply, updates) in replies.iter_mut().enumerate() {
            let plugin = PLUGINS[reply].parse().unwrap();
            for (place, update) in updates.iter_mut().enumerate() {
                if is_creation && update.container_id == OWN {
                    return None; // Refused by us as well.
                }
                match self.claim(&plugin, update) {
                    Ok(()) => {}
                    Err(_) if update.ignore_failure => {
                        self.n_ignored += 1;
                        update.linux.take();
                    }
                    Err(conflict) => return Some((reply, place, conflict)),
                }
            }
        }
        None
    }

    fn claim(&mut self, plugin: &PluginId, update: &ContainerUpdate) -> Result<(), Conflict> {
        let update = Update::from(update.clone());
        for touch in Touch::of_update(&update) {
            let (container, field, key) = (update.container_id.clone(), touch.field, touch.key.to_owned());
            match self.owners.entry((container.clone(), field, key.clone())) {
                Entry::Vacant(entry) => _ = entry.insert(plugin.clone()),
                Entry::Occupied(entry) => {
                    self.by_luck |= update.resources().is_some_and(|resources| resources.unified.len() > 1);
                    let owner = entry.get().to_string();
                    return Err(Conflict { container, field, key, claimer: plugin.clone(), owner });
                }
            }
        }
        Ok(())
    }

    /// Says whether an update was in conflict that may be.
    pub(super) fn are_left(&self) -> bool {
        self.n_ignored > 0
    }

    /// Says whether Go may have claimed others before the conflict.
    pub(super) fn by_luck(&self) -> bool {
        self.are_left() && self.by_luck
    }

    /// Adds what is claimed by what was then in conflict.
    pub(super) fn leave_behind(&self, merged: &mut Merged) {
        let Ok(done) = &mut merged.result else { return };
        if let Some(refused) = &self.refused {
            merged.result = Err(refused.clone());
            return;
        }
        let Some(owners) = done.owners.as_mut().filter(|_| self.are_left()) else { return };
        for ((container, field, key), plugin) in &self.owners {
            let fields = owners.owners.entry(container.clone()).or_default();
            if field.has_entries() {
                let entries = fields.compound.entry(field.number()).or_default();
                entries.owners.insert(key.clone(), plugin.to_string());
            } else {
                fields.simple.insert(field.number(), plugin.to_string());
            }
        }
    }
}

/// The updates in each reply.
fn updates_of(case: &mut Case) -> Vec<&mut Vec<ContainerUpdate>> {
    match case {
        Case::Create(_, replies) => replies.iter_mut().map(|reply| &mut reply.update).collect(),
        Case::Update(_, replies) => replies.iter_mut().map(|reply| &mut reply.update).collect(),
        Case::Stop(_, replies) => replies.iter_mut().map(|reply| &mut reply.update).collect(),
    }
}
