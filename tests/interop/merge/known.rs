use nri_proto::api::ContainerUpdate;
use nri_proto::{Adjustment, Change, ChangeMap, CreateReply};
use nri_tests::merging::{Case, OWN};

use super::merged::Merged;

/// Rows of `docs/differences.md` whose effect depends on what else is in a case, so that it cannot be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Known {
    /// "removal of an annotation, sysctl or network device alone", "who owns such a removal".
    LoneRemoval,
    /// "a limit of processes in an update".
    Pids,
    /// "an update of the container itself that sets nothing".
    OwnUpdateOfNothing,
    /// "an update with `ignore_failure` that is in conflict".
    IgnoredConflict,
    /// "which of several conflicts is told".
    WhichConflict,
}

impl Known {
    /// Returns one that a case must show, by what is in it.
    pub(super) fn of(case: &Case, ours: &Merged) -> Option<Self> {
        let (updates, own): (Vec<&ContainerUpdate>, _) = match case {
            Case::Create(_, replies) => {
                let adjustments = replies.iter().filter_map(|reply| CreateReply::from(reply.clone()).adjustment);
                if adjustments.into_iter().any(|adjustment| removes_alone(&adjustment)) {
                    return Some(Self::LoneRemoval);
                }
                (replies.iter().flat_map(|reply| &reply.update).collect(), None)
            }
            Case::Update(_, replies) => (replies.iter().flat_map(|reply| &reply.update).collect(), Some(OWN)),
            Case::Stop(_, replies) => (replies.iter().flat_map(|reply| &reply.update).collect(), None),
        };
        let asked_for_pids = matches!(case, Case::Update(request, _) if request.linux_resources.pids.is_some());
        if asked_for_pids || updates.iter().any(|update| update.linux.resources.pids.is_some()) {
            Some(Self::Pids)
        } else if updates.iter().any(|update| Some(&*update.container_id) == own && update.linux.resources.is_none()) {
            Some(Self::OwnUpdateOfNothing)
        } else {
            (ours.dropped > 0).then_some(Self::IgnoredConflict)
        }
    }
}

fn removes_alone(adjustment: &Adjustment) -> bool {
    fn any<T>(changes: &ChangeMap<T>) -> bool {
        changes.iter().any(|(_, change)| change.value().is_none())
    }
    let linux = adjustment.linux.as_ref();
    any(&adjustment.annotations) || linux.is_some_and(|linux| any(&linux.sysctl) || any(&linux.net_devices))
}

/// Says whether the last of so many replies, the one that is refused, removes a namespace and sets it.
pub(super) fn replaces_namespace(case: &Case, n_asked: usize) -> bool {
    let Case::Create(_, replies) = case else { return false };
    let refused = replies.get(n_asked.saturating_sub(1)).cloned().map(CreateReply::from);
    let linux = refused.and_then(|reply| reply.adjustment).and_then(|adjustment| adjustment.linux);
    linux.is_some_and(|linux| linux.namespaces.iter().any(|(_, change)| matches!(change, Change::Replace(_))))
}
