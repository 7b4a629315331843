use super::*;

#[track_caller]
fn check(text: &str, socket: bool) {
    let expected = Config::default();
    let socket = expected.socket.clone().filter(|_| socket);
    assert_eq!(Config::from_nri_conf(text), Ok(Config { socket, ..expected }), "{text}");
}

#[track_caller]
fn refuses(text: &str, expected: &str) {
    assert_eq!(Config::from_nri_conf(text).unwrap_err().to_string(), expected, "{text}");
}

#[test]
fn it_says_whether_plugins_may_connect() {
    check("disableConnections: false\n", true);
    check("disableConnections: true\n", false);
    check("---\n# Upstream's own.\n{\"disableConnections\": true}\n...\nnobody: reads this", false);
    for yes in ["yes", "On", "TRUE", "y"] {
        check(&format!("disableConnections: {yes}"), false);
    }
    check("disableConnections: off", true);
}

#[test]
fn one_that_says_nothing_is_the_default() {
    for text in ["", "\n", "# nothing", "---\n", "null", "~", "{}", "disableConnections:", "disableConnections: null"] {
        check(text, true);
    }
}

#[test]
fn problems_are_told_with_their_lines() {
    refuses(
        "# mistyped\ndisableConnection: true\nbananas: 1",
        "line 2: unknown key disableConnection, did you mean disableConnections?; line 3: unknown key bananas",
    );
    refuses("disable_connections: true", "line 1: unknown key disable_connections, did you mean disableConnections?");
    refuses("disableConnections: 'true'", r#"line 1: disableConnections is "true", but must be true or false"#);
    refuses("disableConnections: maybe", r#"line 1: disableConnections is "maybe", but must be true or false"#);
    refuses("disableConnections: [true]", "line 1: disableConnections is [], but must be true or false");
    // The line of the value.
    refuses("disableConnections:\n  a: {b: [c]}", "line 2: disableConnections is {}, but must be true or false");
}

#[test]
fn what_has_no_keys_is_refused() {
    for text in ["true", "- a", "[a]", "? [a]\n: b", "a: 1\na: 2", "a: &a 1\nb: *a", "disableConnections: {"] {
        let error = Config::from_nri_conf(text).unwrap_err();
        assert!(matches!(&error.problems()[0].fault, Fault::Yaml(_)), "{text}: {error}");
    }
    refuses("true", "this cannot be read as YAML: expected mapping start at line 1, column 1");
}

#[test]
fn nothing_that_is_nested_takes_long_or_much() {
    assert!(Config::from_nri_conf(&format!("a: {}", "[".repeat(10_000))).is_err());
    assert!(Config::from_nri_conf(&format!("a: {}{}", "[".repeat(100), "]".repeat(100))).is_err());
}
