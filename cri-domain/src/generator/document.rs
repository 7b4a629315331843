//! Access to a JSON document of any shape. A member of the wrong type is an error, never a panic.

use serde_json::{Map, Value};

use super::SpecError;

pub(super) type Object = Map<String, Value>;

const OBJECT: &str = "an object";
const LIST: &str = "a list";

pub(super) fn root(spec: &mut Value) -> Result<&mut Object, SpecError> {
    spec.as_object_mut().ok_or_else(|| SpecError::Shape { path: "the document".to_owned(), wanted: OBJECT })
}

/// Returns the object at `path`. Creates the object and its parents if they do not exist.
pub(super) fn object<'d>(document: &'d mut Object, path: &[&str]) -> Result<&'d mut Object, SpecError> {
    let mut at = document;
    for (depth, key) in path.iter().enumerate() {
        // Avoids the allocation of the key if the member exists, as it mostly does.
        let value = if at.contains_key(*key) { &mut at[*key] } else { at.entry(*key).or_insert(Value::Null) };
        if value.is_null() {
            *value = Value::Object(Object::new());
        }
        at = value.as_object_mut().ok_or_else(|| shape_error(&path[..=depth], OBJECT))?;
    }
    Ok(at)
}

/// Returns the object at `path`, if it exists.
pub(super) fn find_object<'d>(document: &'d mut Object, path: &[&str]) -> Result<Option<&'d mut Object>, SpecError> {
    let mut at = document;
    for (depth, key) in path.iter().enumerate() {
        at = match at.get_mut(*key) {
            None | Some(Value::Null) => return Ok(None),
            Some(value) => value.as_object_mut().ok_or_else(|| shape_error(&path[..=depth], OBJECT))?,
        };
    }
    Ok(Some(at))
}

/// Returns the list at `path`. Creates the list and its parents if they do not exist.
pub(super) fn list<'d>(document: &'d mut Object, path: &[&str]) -> Result<&'d mut Vec<Value>, SpecError> {
    let [parents @ .., key] = path else { return Err(shape_error(path, LIST)) };
    let value = object(document, parents)?.entry(*key).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Array(vec![]);
    }
    value.as_array_mut().ok_or_else(|| shape_error(path, LIST))
}

/// Returns the list at `path`, if it exists.
pub(super) fn find_list<'d>(document: &'d mut Object, path: &[&str]) -> Result<Option<&'d mut Vec<Value>>, SpecError> {
    let [parents @ .., key] = path else { return Err(shape_error(path, LIST)) };
    match find_object(document, parents)?.and_then(|parent| parent.get_mut(*key)) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_array_mut().map(Some).ok_or_else(|| shape_error(path, LIST)),
    }
}

/// Sets a member of the object at `path`.
pub(super) fn set(
    document: &mut Object,
    path: &[&str],
    key: &'static str,
    value: impl Into<Value>,
) -> Result<(), SpecError> {
    object(document, path)?.insert(key.to_owned(), value.into());
    Ok(())
}

/// Sets members of the object at `path`. Skips values that are null or empty.
pub(super) fn set_present<const N: usize>(
    document: &mut Object,
    path: &[&str],
    members: [(&'static str, Value); N],
) -> Result<(), SpecError> {
    for (key, value) in members.into_iter().filter(|(_, value)| is_present(value)) {
        set(document, path, key, value)?;
    }
    Ok(())
}

/// Removes a member of the object at `path`. The other members keep their order.
pub(super) fn unset(document: &mut Object, path: &[&str], key: &str) -> Result<(), SpecError> {
    if let Some(object) = find_object(document, path)? {
        object.shift_remove(key);
    }
    Ok(())
}

fn shape_error(path: &[&str], wanted: &'static str) -> SpecError {
    SpecError::Shape { path: path.join("."), wanted }
}

/// Returns a new object with these members. Skips values that are null or empty.
pub(super) fn new_object<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().filter(|(_, value)| is_present(value)).map(|(key, value)| (key.to_owned(), value)).collect()
}

fn is_present(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => true,
    }
}

/// Returns a member if it is a string.
pub(super) fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}
