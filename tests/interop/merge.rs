//! The merge beside Go's: the same questions and replies through both.
//!
//! What comes out, who owns it, how a conflict is told and what each plugin is shown is the same, but for what
//! `docs/differences.md` lists under "Merging". Each of these is either undone on both sides ([`alike`]) or known by
//! what a case has in it ([`known`]).

mod alike;
mod known;
mod merged;
mod merger;

use nri_tests::go;
use nri_tests::merging::{self, Case};
use proptest::test_runner::TestCaseError;

use self::alike::alike;
use self::known::Known;
use self::merged::Merged;
use self::merger::Merger;
use crate::random::{cases, tally};

/// How often Go is asked again before it is said that it never tells the conflict that we tell.
const TRIES: usize = 100;

#[test]
fn replies_are_merged_as_go_merges_them() {
    let Ok(program) = go::program("merger") else { return };
    let mut merger = Merger::start(&program);
    let tally = tally(&merging::case(), |case| compare(&case, &mut merger));
    let of = |verdict| tally.get(&verdict).copied().unwrap_or_default();
    let (merged, refused) = (of(Verdict::SameResult), of(Verdict::SameConflict));
    assert!(merged + refused >= cases() * 4 / 5, "too many show a known difference: {tally:?}");
    assert!(merged.min(refused) >= cases() / 10, "hardly any are merged, or hardly any are refused: {tally:?}");
}

/// What became of a case on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    SameResult,
    SameConflict,
    Known(Known),
}

/// Fails if there is a difference that is not known.
fn compare(case: &Case, merger: &mut Merger) -> Result<Verdict, TestCaseError> {
    let (ours, theirs) = (Merged::of(case), merger.merge(case));
    let Some(difference) = difference(&ours, &theirs) else {
        return Ok(if ours.result.is_ok() { Verdict::SameResult } else { Verdict::SameConflict });
    };
    if let Some(known) = Known::of(case, &ours) {
        return Ok(Verdict::Known(known));
    }
    // Of several conflicts Go tells any, and of those of a reply that removes and sets a namespace another one.
    let both_refuse = ours.result.is_err() && theirs.result.is_err();
    let is_namespace = |merged: &Merged| merged.result.as_ref().is_err_and(|error| error.contains(" set Namespace "));
    let both_namespaces = is_namespace(&ours) && is_namespace(&theirs) && ours.seen.len() == theirs.seen.len();
    if both_namespaces && known::replaces_namespace(case, ours.seen.len())
        || both_refuse && (0..TRIES).any(|_| self::difference(&ours, &merger.merge(case)).is_none())
    {
        return Ok(Verdict::Known(Known::WhichConflict));
    }
    Err(TestCaseError::fail(difference))
}

/// Says what differs, both sides as text.
fn difference(ours: &Merged, theirs: &Merged) -> Option<String> {
    let (ours, theirs) = (alike(ours.clone()), alike(theirs.clone()));
    (ours != theirs).then(|| format!("ours:\n{ours:?}\nGo's:\n{theirs:?}"))
}
