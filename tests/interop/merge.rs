//! The merge beside Go's: the same requests and replies through both.
//!
//! The results, their owners, the texts of conflicts and the views of plugins are the same, except
//! for the differences that `docs/differences.md` lists under "Merging". Each of these is either
//! undone ([`alike`]), or Go's result is predicted ([`foretold`]). No case may differ in anything
//! else.

mod alike;
mod foretold;
mod known;
mod merged;
mod merger;
mod shown;

use std::collections::BTreeSet;

use nri_tests::go;
use nri_tests::merging::{self, Case};
use proptest::test_runner::TestCaseError;

use self::foretold::Foretold;
use self::known::Known;
use self::merged::Merged;
use self::merger::Merger;
use crate::random::{cases, tally};

/// How often Go is asked again, if chance decides in Go, before the prediction counts as wrong.
const TRIES: usize = 1000;

#[test]
fn replies_are_merged_as_go_merges_them() {
    let Ok(program) = go::program("merger") else { return };
    let mut merger = Merger::start(&program);
    let tally = tally(&merging::case(), |case| compare(&case, &mut merger));
    let count = |is_meant: &dyn Fn(&Verdict) -> bool| {
        tally.iter().filter(|(verdict, _)| is_meant(verdict)).map(|(_, count)| count).sum::<u32>()
    };
    for is_merged in [true, false] {
        let alike = count(&|verdict| verdict.is_merged == is_merged && verdict.known.is_empty());
        assert!(alike >= cases() / 10, "hardly any are merged, or hardly any are refused: {tally:?}");
    }
}

#[test]
fn each_known_difference_is_shown_and_is_as_foretold() {
    let Ok(program) = go::program("merger") else { return };
    let mut merger = Merger::start(&program);
    for known in Known::ALL {
        let verdict = compare(&known.shown(), &mut merger).unwrap();
        assert_eq!(verdict.known, BTreeSet::from([known]));
    }
}

/// The predicted outcome of a case in Go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Verdict {
    is_merged: bool,
    known: BTreeSet<Known>,
}

/// Compares both sides, and fails if there is an unknown difference.
fn compare(case: &Case, merger: &mut Merger) -> Result<Verdict, TestCaseError> {
    let mut foretold = Foretold::of(case);
    if let Some((ours, rewritten)) = foretold.rest_beside(&Merged::of(case))
        && ours != rewritten
    {
        return Err(TestCaseError::fail(format!("ours:\n{ours:?}\nof what Go takes it for:\n{rewritten:?}")));
    }

    let ours = alike::ours(case, foretold.merged.clone());
    let mut ask = || alike::theirs(case, merger.merge(case));
    let theirs = ask();
    if ours != theirs {
        // If there are several conflicts, Go reports any of them.
        let may_differ = foretold.by_luck || ours.result.is_err() && theirs.result.is_err();
        if !may_differ || (0..TRIES).all(|_| ask() != ours) {
            return Err(TestCaseError::fail(format!("foretold:\n{ours:?}\nGo's:\n{theirs:?}")));
        }
        foretold.known.insert(Known::WhichConflict);
    }
    Ok(Verdict { is_merged: ours.result.is_ok(), known: foretold.known })
}
