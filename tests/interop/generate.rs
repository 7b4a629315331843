//! The spec generator beside Go's: the same specs and adjustments through both.
//!
//! The results are the same, except for the differences that `docs/differences.md` lists under "The
//! spec generator". Each of these is either undone on both sides ([`alike`]) or predicted from the
//! case.

mod alike;
mod generator;

use std::error::Error as _;
use std::path::Path;

use cri_domain::generator::host::{Allowlist, mount_propagation};
use cri_domain::generator::{Host, SpecError, adjust};
use nri_proto::Field;
use nri_tests::generating::{self, Case};
use nri_tests::go;
use proptest::test_runner::TestCaseError;
use serde_json::Value;

use self::alike::Alike;
use self::generator::Generator;
use crate::random::{cases, tally};

#[test]
fn specs_are_adjusted_as_go_adjusts_them() {
    let Ok(program) = go::program("generator") else { return };
    let mut generator = Generator::start(&program);
    let tally = tally(&generating::case(), |case| compare(&case, &mut generator));
    let of = |verdict| tally.get(&verdict).copied().unwrap_or_default();
    assert!(of(Verdict::SameResult) >= cases() / 2, "too few come to the same: {tally:?}");
    assert!(of(Verdict::Nonsense) >= cases() / 20, "hardly anything is refused: {tally:?}");
}

/// The outcome of a case on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    SameResult,
    /// Both refuse the case: the source of a mount does not propagate.
    SameRefusal,
    /// "invalid values": we refuse the value and name the field, whether or not Go accepts it.
    Nonsense,
    /// "a spec without a process or a Linux section".
    GoPanics,
}

/// Compares both sides, and fails if there is an unknown difference.
fn compare(case: &Case, generator: &mut Generator) -> Result<Verdict, TestCaseError> {
    let (ours, theirs) = (adjusted(case), generator.adjusted(case));
    match (ours, theirs) {
        (Err(error), theirs) if case.nonsense.is_some() => {
            let named = error.field().map(|(field, _)| field);
            // A mount that the spec had before may be refused as well: on this machine no mount
            // propagates.
            if named == case.nonsense || named == Some(Field::Mounts) && theirs.is_err() {
                return Ok(Verdict::Nonsense);
            }
            Err(TestCaseError::fail(format!("the error names something else: {error}")))
        }
        (Ok(_), _) if case.nonsense.is_some() => Err(TestCaseError::fail("nonsense is taken")),
        (Ok(ours), Ok(theirs)) => {
            let alike = Alike::of(case);
            let (ours, theirs) = (alike.spec(generator.read_and_written(&ours)), alike.theirs(theirs));
            if ours == theirs {
                return Ok(Verdict::SameResult);
            }
            Err(TestCaseError::fail(format!("ours:\n{ours:#}\nGo's:\n{theirs:#}")))
        }
        (ours, Err(error)) if error.starts_with("panic: ") && lacks_a_section(&case.spec) => match ours {
            Ok(_) | Err(SpecError::Host { field: Field::Mounts, .. }) => Ok(Verdict::GoPanics),
            Err(error) => Err(TestCaseError::fail(format!("ours: {error}"))),
        },
        (Err(error), Err(theirs)) => {
            let cause = error.source().map(ToString::to_string).unwrap_or_default();
            if !cause.is_empty() && theirs.ends_with(&cause) {
                return Ok(Verdict::SameRefusal);
            }
            Err(TestCaseError::fail(format!("ours: {error}: {cause}\nGo's: {theirs}")))
        }
        (ours, theirs) => Err(TestCaseError::fail(format!("ours: {ours:?}\nGo's: {theirs:?}"))),
    }
}

fn adjusted(case: &Case) -> Result<Value, SpecError> {
    // Go has no filters by default: "annotations that runtimes and shims take as settings", "kernel
    // parameters of the host".
    let host = Host {
        allow: Allowlist::everything(),
        propagation: Some(Box::new(|path: &Path| Ok(mount_propagation(path)?))),
        ..Host::default()
    };
    let mut spec = case.spec.clone();
    adjust(&mut spec, &case.adjustment, &host)?;
    Ok(spec)
}

fn lacks_a_section(spec: &Value) -> bool {
    spec.get("process").is_none() || spec.get("linux").is_none()
}
