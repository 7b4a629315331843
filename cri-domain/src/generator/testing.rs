//! Helpers for the tests of single fields.

use nri_proto::{Adjustment, LinuxAdjustment};
use serde_json::{Value, json};

use super::{Host, SpecError, adjust};

/// Applies an adjustment to a spec, and returns the spec.
pub(super) fn adjusted(mut spec: Value, change: impl FnOnce(&mut Adjustment)) -> Result<Value, SpecError> {
    let mut adjustment = Adjustment::default();
    change(&mut adjustment);
    adjust(&mut spec, &adjustment, &Host::default())?;
    Ok(spec)
}

/// Checks the spec that results from an adjustment, with the order of its members.
#[track_caller]
pub(super) fn check(spec: Value, change: impl FnOnce(&mut Adjustment), expected: Value) {
    assert_eq!(adjusted(spec, change).unwrap().to_string(), expected.to_string());
}

/// Checks the result of an adjustment like [`check`], for fields of Linux.
#[track_caller]
pub(super) fn check_linux(spec: Value, change: impl FnOnce(&mut LinuxAdjustment), expected: Value) {
    check(spec, |adjustment| change(adjustment.linux.insert(LinuxAdjustment::default())), expected);
}

/// Checks that an adjustment is refused with this error.
#[track_caller]
pub(super) fn check_refused(change: impl FnOnce(&mut Adjustment), expected: &str) {
    assert_eq!(adjusted(json!({}), change).unwrap_err().to_string(), format!("cannot adjust {expected}"));
}

/// Checks that an adjustment is refused like [`check_refused`], for fields of Linux.
#[track_caller]
pub(super) fn check_linux_refused(change: impl FnOnce(&mut LinuxAdjustment), expected: &str) {
    check_refused(|adjustment| change(adjustment.linux.insert(LinuxAdjustment::default())), expected);
}
