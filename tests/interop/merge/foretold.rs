//! Predicts Go's result of a case.
//!
//! Go misreads some cases. So the case is rewritten to what Go reads, our merge is applied to that,
//! and the parts that Go then forgets or leaves behind are added. Everything else in the case must
//! come out as it does here.

mod lists;
mod removals;
mod spellings;
mod updates;

use std::collections::BTreeSet;

use nri_tests::merging::Case;

use self::removals::LoneRemovals;
use self::updates::Claims;
use super::alike;
use super::known::Known;
use super::merged::{Done, Merged};

pub(super) struct Foretold {
    pub(super) merged: Merged,
    /// The known differences because of which the result differs from ours.
    pub(super) known: BTreeSet<Known>,
    /// Whether the result depends on the order of a map in Go, so that several attempts may be
    /// necessary.
    pub(super) by_luck: bool,
    /// Our result of the rewritten case.
    rewritten: Merged,
    removals: LoneRemovals,
}

impl Foretold {
    pub(super) fn of(case: &Case) -> Self {
        let mut read = case.clone();
        let removals = LoneRemovals::take_from(&mut read);
        let lost_pids = updates::lose_pids(&mut read);
        let claims = Claims::of(&mut read);

        let differs_by_spelling = spellings::matter(case);
        spellings::tell_apart(&mut read);
        let mut rewritten = Merged::of(&read);
        spellings::name_again(&mut rewritten);
        let mut merged = rewritten.clone();
        removals.mark(&mut merged);
        claims.leave_behind(&mut merged);
        let shown = [
            (Known::LoneRemoval, !removals.is_empty()),
            (Known::Spelling, differs_by_spelling),
            (Known::Pids, lost_pids),
            (Known::IgnoredConflict, claims.are_left()),
            (Known::OwnUpdateOfNothing, updates::forget_request(&read, &mut merged)),
            (Known::DashMore, lists::drop_dashed_mounts(case, &mut merged)),
            (Known::WhichConflict, lists::tell_first_namespace(case, &mut merged)),
        ];
        let known = shown.into_iter().filter(|(_, is_shown)| *is_shown).map(|(known, _)| known).collect();
        Self { merged, known, by_luck: claims.by_luck(), rewritten, removals }
    }

    /// Returns our results of the case and of the rewritten case, both without the known
    /// differences. They must be equal. Returns `None` if a difference decides about a conflict, so
    /// that there is nothing to compare.
    pub(super) fn rest_beside(&self, ours: &Merged) -> Option<(Merged, Merged)> {
        let decides = [Known::IgnoredConflict, Known::Spelling];
        let is_decided =
            decides.iter().any(|known| self.known.contains(known)) || ours.dropped != self.rewritten.dropped;
        if is_decided || ours.result.is_err() || self.rewritten.result.is_err() {
            return None;
        }
        let rest = |merged: &Merged| {
            let mut rest = merged.clone();
            self.removals.leave_out(&mut rest);
            updates::leave_out_pids(&mut rest);
            if let Ok(Done { owners: Some(owners), .. }) = &mut rest.result {
                alike::forget_empty(owners);
            }
            rest
        };
        Some((rest(ours), rest(&self.rewritten)))
    }
}
