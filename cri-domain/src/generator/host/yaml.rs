//! Reads YAML and JSON files as Go's libraries do, but refuses aliases.

use serde::de::{DeserializeOwned, Error as _};
use serde_saphyr::{Options, budget, options, with_deserializer_from_str_with_options};

/// Error from reading a file: the text is not valid YAML, or its members are not the expected ones.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct YamlError(#[from] Box<serde_saphyr::Error>);

/// Reads the first document of a text. Later documents are ignored, as in Go.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, YamlError> {
    let mut first = None;
    let end = with_deserializer_from_str_with_options(text, settings(), |document| {
        first = Some(T::deserialize(document)?);
        Ok(())
    });
    first.ok_or_else(|| {
        let error = end.err().unwrap_or_else(|| serde_saphyr::Error::custom("there is no document"));
        Box::new(error).into()
    })
}

/// Returns the options of the reader. Aliases are refused, because they could expand a small file
/// to a large value. Callers limit the size of files.
fn settings() -> Options {
    options! {
        budget: budget! {
            max_aliases: 0,
            max_depth: 64,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
        },
        // File modes are written as `0660`.
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn document(text: &str) -> Result<Value, YamlError> {
        read(text)
    }

    #[test]
    fn yaml_and_json_are_read_alike() {
        let expected = json!({"a": [1, "1", true, null, "x y"], "b": {"c": "50M"}});
        assert_eq!(document("a:\n- 1\n- '1'\n- true\n- ~\n- x y\nb: {c: 50M}\n").unwrap(), expected);
        assert_eq!(document(&expected.to_string()).unwrap(), expected);
        assert_eq!(document("{\n\t\"a\": [\n\t\t1\n\t]\n}\n").unwrap(), json!({"a": [1]}));
        assert_eq!(document("").unwrap(), Value::Null);
    }

    #[test]
    fn only_the_first_document_counts() {
        assert_eq!(document("---\na: 1\n---\nb: [\n").unwrap(), json!({"a": 1}));
        assert_eq!(document("a: 1\n...\nb: 2\n").unwrap(), json!({"a": 1}));
    }

    #[test]
    fn a_number_with_a_zero_before_it_is_octal_and_is_kept_as_written_in_a_text() {
        assert_eq!(read::<u32>("0660").unwrap(), 0o660);
        assert_eq!(read::<String>("0660").unwrap(), "0660");
    }

    #[test]
    fn what_could_grow_is_refused() {
        for (text, expected) in [
            ("a: &x [1]\nb: *x", "alias"),
            (&*"[".repeat(1000), "recursion limit"),
            (&*format!("{}{}", "[".repeat(65), "]".repeat(65)), "depth"),
            ("a: 1\na: 2", "duplicate"),
        ] {
            let error = document(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let deep = format!("{}{}", "[".repeat(64), "]".repeat(64));
        assert!(document(&deep).is_ok());
    }
}
