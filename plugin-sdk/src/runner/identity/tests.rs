use super::IdentitySources;

fn check(sources: IdentitySources<'_>, expected: &str) {
    let found = match sources.identity() {
        Ok(id) => id.to_string(),
        Err(error) => crate::chain(&error),
    };
    assert_eq!(found, expected, "{sources:?}");
}

#[test]
fn what_is_said_comes_before_the_environment_and_that_before_the_program() {
    let program = IdentitySources { program: "30-program", ..IdentitySources::default() };
    check(program, "30-program");
    let launched = IdentitySources { env_name: Some("env"), env_index: Some("20"), ..program };
    check(launched, "20-env");
    check(IdentitySources { name: Some("said"), ..launched }, "20-said");
    check(IdentitySources { index: Some("10"), ..launched }, "10-env");
    check(IdentitySources { name: Some("said"), index: Some("10"), ..launched }, "10-said");
    check(IdentitySources { name: Some("said"), ..program }, "30-said");
}

#[test]
fn with_an_index_alone_the_whole_name_of_the_program_is_the_plugins() {
    check(IdentitySources { index: Some("10"), program: "logger", ..IdentitySources::default() }, "10-logger");
    check(
        IdentitySources { env_index: Some("10"), program: "20-logger", ..IdentitySources::default() },
        "10-20-logger",
    );
}

#[test]
fn u20_a_program_without_an_index_in_its_name_says_what_it_should_be_called() {
    let expected = "could not determine the plugin's index: set one, or rename the program to 10-README.sh or similar: \
                    invalid plugin name \"README.sh\", idx-pluginname expected";
    check(IdentitySources { program: "README.sh", ..IdentitySources::default() }, expected);
}

#[test]
fn names_and_indices_that_no_runtime_takes_are_refused_here() {
    let said = |index, name| IdentitySources {
        index: Some(index),
        name: Some(name),
        program: "x",
        ..IdentitySources::default()
    };
    let refused = "could not register a plugin with index";
    check(said("1", "a"), &format!("{refused} \"1\" and name \"a\": invalid plugin index \"1\", must be 2 digits"));
    check(said("1x", "a"), &format!("{refused} \"1x\" and name \"a\": invalid plugin index \"1x\" (not [0-9][0-9])"));
    check(said("10", ""), &format!("{refused} \"10\" and name \"\": invalid plugin name: name is empty"));
}
