//! Reads members of a JSON document of any shape. A member of the wrong type counts as missing.

use std::collections::BTreeMap;

use serde_json::Value;

pub(super) fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

pub(super) fn some_text(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

pub(super) fn texts(value: &Value, key: &str) -> Vec<String> {
    all(value, key, |entry| entry.as_str().map(str::to_owned))
}

pub(super) fn map(value: &Value, key: &str) -> BTreeMap<String, String> {
    let entries = value.get(key).and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// Returns the entries of a list that `read` accepts.
pub(super) fn all<T>(value: &Value, key: &str, read: impl Fn(&Value) -> Option<T>) -> Vec<T> {
    value.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(read).collect()
}

pub(super) fn signed(value: &Value, key: &str) -> Option<i64> {
    value.get(key).and_then(Value::as_i64)
}

pub(super) fn unsigned(value: &Value, key: &str) -> Option<u64> {
    value.get(key).and_then(Value::as_u64)
}

/// Returns a number, or `None` if it does not fit: it is never truncated.
pub(super) fn small(value: &Value, key: &str) -> Option<u32> {
    unsigned(value, key).and_then(|number| number.try_into().ok())
}

pub(super) fn smaller<T: TryFrom<i64>>(value: &Value, key: &str) -> Option<T> {
    signed(value, key).and_then(|number| number.try_into().ok())
}

pub(super) fn flag(value: &Value, key: &str) -> Option<bool> {
    value.get(key).and_then(Value::as_bool)
}

/// Returns a member if it is an object.
pub(super) fn section<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    value.get(key).filter(|section| section.is_object())
}
