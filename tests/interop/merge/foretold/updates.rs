use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use nri_adaptation::merge::{Conflict, Touch};
use nri_proto::api::{ContainerUpdate, LinuxResources};
use nri_proto::{Field, PluginId, Update};
use nri_tests::merging::{Case, OWN, PLUGINS};

use crate::merge::merged::{Done, Merged, Seen};

/// Rewrites limits of processes in updates. Go ignores them, and has each update of the container
/// itself set the requested limit instead. Returns whether that makes a difference.
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

/// Removes everything about limits of processes in updates.
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

/// For Go, an update of the container itself that sets nothing replaces the request with nothing,
/// until another update sets something. Returns whether the case has such an update.
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

/// The claims of updates in Go. There, an update that is in conflict and may fail keeps the claims
/// that it made before the conflict.
#[derive(Default)]
pub(super) struct Claims {
    owners: BTreeMap<(String, Field, String), PluginId>,
    n_ignored: usize,
    by_luck: bool,
    refused: Option<String>,
}

impl Claims {
    /// Makes the claims in order. An update that is in conflict and may fail becomes one that sets
    /// nothing. An update that is in conflict and may not fail ends the case, if claims that were
    /// left behind can have caused the conflict.
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

    /// Makes the claims until an update is refused. Returns the reply, the update and the conflict.
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

    /// Returns whether an update that may fail was in conflict.
    pub(super) fn are_left(&self) -> bool {
        self.n_ignored > 0
    }

    /// Returns whether Go may have made other claims before the conflict.
    pub(super) fn by_luck(&self) -> bool {
        self.are_left() && self.by_luck
    }

    /// Adds the claims that updates in conflict leave behind.
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

/// Returns the updates of each reply.
fn updates_of(case: &mut Case) -> Vec<&mut Vec<ContainerUpdate>> {
    match case {
        Case::Create(_, replies) => replies.iter_mut().map(|reply| &mut reply.update).collect(),
        Case::Update(_, replies) => replies.iter_mut().map(|reply| &mut reply.update).collect(),
        Case::Stop(_, replies) => replies.iter_mut().map(|reply| &mut reply.update).collect(),
    }
}
