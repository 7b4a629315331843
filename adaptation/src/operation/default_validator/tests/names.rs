//! The expected lists and errors are the results of Go's YAML reader for the same texts.

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
fn a_tag_says_whether_it_is_a_name() {
    check("[!!str null, !!str , ! null, !foo null, !!foo ~]", &["null", "", "null", "~"]);
    for tag in ["binary", "bool", "float", "int", "null", "timestamp"] {
        let error = read(&format!("- a\n- !!{tag} b")).unwrap_err().to_string();
        assert_eq!(error, "line 2: each entry must be a name", "{tag}");
    }
    for text in ["!!str null", "!!str", "!foo", "!!null ''"] {
        assert_eq!(read(text).unwrap_err().to_string(), "it must be a list of names", "{text}");
    }
}

#[test]
fn a_tab_is_no_indentation() {
    check("- a\t# c\n- b\tc", &["a", "b\tc"]);
    check("[\n\ta,\tb\n]", &["a", "b"]);
    for text in ["- a\n\t- b", "- a\n-\tb", "- a\n- \tb", "#\n\t[a]", "- a\n\t"] {
        assert_eq!(read(text).unwrap_err().to_string(), "line 2: a tab where a line begins", "{text:?}");
    }
}

#[test]
fn directives_are_those_of_yaml_1_1() {
    check("# c\n%YAML 1.1 # c\n%TAG !e! tag:e.org,1:\n--- [!e!x a]", &["a"]);
    let error = "line 2: a directive that is not of YAML 1.1";
    for directive in ["%YAML 1.2", "%YAML 2.0", "%YAML", "%FOO a", "%"] {
        assert_eq!(read(&format!("\n{directive}\n--- [a]")).unwrap_err().to_string(), error, "{directive}");
    }
}

#[test]
fn only_the_first_document_counts() {
    check("--- [a]\n--- [b]", &["a"]);
    check("[a] b", &["a"]);
}

#[test]
fn what_is_no_list_of_names_is_refused() {
    let error = |text: &str| read(text).unwrap_err().to_string();
    assert_eq!(error("a"), "it must be a list of names");
    assert_eq!(error("{a: b}"), "it must be a list of names");
    assert_eq!(error("[[a]]"), "line 1: each entry must be a name");
    assert_eq!(error("- a\n- b: c"), "line 2: each entry must be a name");
    assert_eq!(error("- &x a\n- *x"), "line 2: each entry must be a name", "Go repeats it");
    assert!(read("[a").is_err() && read("a: [").is_err());
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
