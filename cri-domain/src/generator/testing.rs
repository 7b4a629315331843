//! What the tests of the fields share.

use nri_proto::{Adjustment, LinuxAdjustment};
use serde_json::{Value, json};

use super::{Host, SpecError, adjust};

/// Applies changes to a spec.
pub(super) fn adjusted(mut spec: Value, change: impl FnOnce(&mut Adjustment)) -> Result<Value, SpecError> {
    let mut adjustment = Adjustment::default();
    change(&mut adjustment);
    adjust(&mut spec, &adjustment, &Host::default())?;
    Ok(spec)
}

/// Compares what comes of changes to a spec, also the order of its members.
#[track_caller]
pub(super) fn check(spec: Value, change: impl FnOnce(&mut Adjustment), expected: Value) {
    assert_eq!(adjusted(spec, change).unwrap().to_string(), expected.to_string());
}

/// As [`check`], for what only Linux has.
#[track_caller]
pub(super) fn check_linux(spec: Value, change: impl FnOnce(&mut LinuxAdjustment), expected: Value) {
    check(spec, |adjustment| change(adjustment.linux.insert(LinuxAdjustment::default())), expected);
}

/// Changes are refused, in these words.
#[track_caller]
pub(super) fn check_refused(change: impl FnOnce(&mut Adjustment), expected: &str) {
    assert_eq!(adjusted(json!({}), change).unwrap_err().to_string(), format!("cannot adjust {expected}"));
}

/// As [`check_refused`], for what only Linux has.
#[track_caller]
pub(super) fn check_linux_refused(change: impl FnOnce(&mut LinuxAdjustment), expected: &str) {
    check_refused(|adjustment| change(adjustment.linux.insert(LinuxAdjustment::default())), expected);
}
