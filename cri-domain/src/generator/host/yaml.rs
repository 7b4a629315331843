//! YAML as a document. Aliases are refused: they can make a small file large.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};
use serde_json::{Map, Value};

/// Why a file is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each says which line it is about")]
pub enum YamlError {
    /// It is no YAML.
    #[error(transparent)]
    Syntax(#[from] ScanError),
    /// It refers to something that it has said before.
    #[error("line {line}: aliases are not read")]
    Alias { line: usize },
    /// A key is not a text.
    #[error("line {line}: a key must be a text")]
    Key { line: usize },
    /// A key has two values.
    #[error("line {line}: {key} is there twice")]
    Twice { line: usize, key: String },
    /// Too many things are inside each other.
    #[error("line {line}: it goes too deep")]
    Depth { line: usize },
}

const DEEPEST: usize = 64;

/// Something that is not complete yet.
enum Open {
    List(Vec<Value>),
    /// The key is that of a value which has not come yet.
    Map(Map<String, Value>, Option<String>),
}

/// Reads the first document. Plain scalars are numbers, truth values and null where they look like it.
pub(super) fn read(text: &str) -> Result<Value, YamlError> {
    let mut open: Vec<Open> = vec![];
    for event in Parser::new_from_str(text) {
        let (event, span) = event?;
        let line = span.start.line();
        let value = match event {
            Event::Scalar(text, style, ..) => scalar(&text, style),
            Event::SequenceStart(..) | Event::MappingStart(..) if open.len() >= DEEPEST => {
                return Err(YamlError::Depth { line });
            }
            Event::SequenceStart(..) => {
                open.push(Open::List(vec![]));
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open::Map(Map::new(), None));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List(list)) => Value::Array(list),
                Some(Open::Map(map, _)) => Value::Object(map),
                None => Value::Null,
            },
            Event::Alias(_) => return Err(YamlError::Alias { line }),
            Event::DocumentEnd | Event::StreamEnd => return Ok(Value::Null),
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => continue,
        };
        match open.last_mut() {
            None => return Ok(value),
            Some(Open::List(list)) => list.push(value),
            Some(Open::Map(_, key @ None)) => *key = Some(key_of(value).ok_or(YamlError::Key { line })?),
            Some(Open::Map(map, key)) => {
                let key = key.take().unwrap_or_default();
                if map.contains_key(&key) {
                    return Err(YamlError::Twice { line, key });
                }
                map.insert(key, value);
            }
        }
    }
    Ok(Value::Null)
}

fn key_of(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(_) | Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return text.into();
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => true.into(),
        "false" | "False" | "FALSE" => false.into(),
        text => text.parse::<i64>().map_or_else(|_| text.into(), Value::from),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_and_json_are_read_alike() {
        let expected = json!({"a": [1, "1", true, null, "x y"], "b": {"c": "50M"}});
        assert_eq!(read("a:\n- 1\n- '1'\n- true\n- ~\n- x y\nb: {c: 50M}\n").unwrap(), expected);
        assert_eq!(read(&expected.to_string()).unwrap(), expected);
        assert_eq!(read("").unwrap(), Value::Null);
    }

    #[test]
    fn what_could_grow_is_refused() {
        assert!(matches!(read("a: &x [1]\nb: *x"), Err(YamlError::Alias { .. })));
        assert!(matches!(read(&"[".repeat(1000)), Err(YamlError::Depth { .. } | YamlError::Syntax(_))));
        assert!(matches!(read("a: 1\na: 2"), Err(YamlError::Twice { .. } | YamlError::Syntax(_))));
    }
}
