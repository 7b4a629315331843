//! The expected lists are the results of Go's YAML reader for the same texts. Where we differ,
//! `tests/interop/annotations.rs` has both results.

use proptest::prelude::*;

use super::super::names::read;

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(read(text).unwrap(), expected, "{text:?}");
}

#[test]
fn a_list_may_be_yaml_or_json() {
    check("[a, b]", &["a", "b"]);
    check("- a\n- b", &["a", "b"]);
    check(r#"["a","b"]"#, &["a", "b"]);
    check("# c\n- a # d", &["a"]);
    check("['10-x', \"y\\n\"]", &["10-x", "y\n"]);
    check("- |\n  a\n", &["a\n"]);
    check("[a,]", &["a"]);
}

#[test]
fn nothing_is_an_empty_list() {
    for text in ["", "null", "~", "[]", "\n"] {
        check(text, &[]);
    }
    check("- a\n-", &["a"]);
    check("[null, ~, a, 'null']", &["a", "null"]);
}

#[test]
fn names_stay_as_they_are_written() {
    check("[1, true, 1.5, 0x10, 0o7, 1_000]", &["1", "true", "1.5", "0x10", "0o7", "1_000"]);
    check("!foo [!foo a]", &["a"]);
}

#[test]
fn only_the_first_document_counts() {
    check("--- [a]\n--- [b]", &["a"]);
    check("[a] b", &["a"]);
}

#[test]
fn what_is_no_list_of_names_is_refused() {
    for text in ["a", "{a: b}", "[[a]]", "- a\n- b: c", "[a", "a: [", "!!str null", "- a\n\t- b"] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.starts_with("it must be a list of names: "), "{text:?}: {error}");
    }
}

#[test]
fn what_could_grow_is_refused() {
    let laughs = "- &a [lol, lol]\n- &b [*a, *a]\n- &c [*b, *b]\n- [*c, *c]";
    let error = |text: &str| read(text).unwrap_err().to_string();
    assert!(error("- &x a\n- *x").contains("alias"), "Go repeats it");
    assert!(read(laughs).is_err());
    let aliases = format!("[&x {}{}]", "a".repeat(100_000), ", *x".repeat(30_000));
    assert!(error(&aliases).contains("alias"));
    for open in ["[", "{", "- ", "? ", "{a: ", "[a, "] {
        assert!(read(&open.repeat(40_000)).is_err(), "{open}");
    }
    let long = format!("[{}]", "a".repeat(256 << 10));
    assert_eq!(error(&long), "it must not be longer than 262144 bytes");
    let longest = "- a\n".repeat((256 << 10) / 4);
    assert_eq!(read(&longest).unwrap().len(), 65_536);
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>(), marks in r#"[\[\]{},:&*!|>'"%@ \n\t#a-]{0,40}"#) {
        let _ = read(&text);
        let _ = read(&marks);
    }

    #[test]
    fn a_list_of_names_in_json_is_read_as_it_is(names in proptest::collection::vec("[a-z0-9_./-]{0,20}", 0..8)) {
        let quoted: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
        prop_assert_eq!(read(&format!("[{}]", quoted.join(","))).unwrap(), names);
    }
}
