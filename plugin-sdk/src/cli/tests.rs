use super::{ParsedFlags, Program};
use crate::chain;

fn program() -> Program {
    Program::new("test", "is tested").flag("events", "LIST", "which").switch("watch", "whether")
}

fn given(args: &[&str]) -> ParsedFlags {
    program().parse(args).unwrap_or_else(|error| panic!("{args:?}: {}", chain(&error)))
}

fn check_error(args: &[&str], expected: &str) {
    let error = program().parse(args).err().map(|error| chain(&error));
    assert_eq!(error.as_deref(), Some(expected), "{args:?}");
}

#[test]
fn a_flag_has_one_dash_or_two_and_its_value_behind_a_blank_or_an_equals_sign() {
    for args in [&["-idx", "10"][..], &["--idx", "10"], &["-idx=10"], &["--idx=10"], &["--index", "10"]] {
        assert_eq!(given(args).into_options().unwrap().index.as_deref(), Some("10"), "{args:?}");
    }
}

#[test]
fn the_socket_has_all_names_that_plugins_have_for_it() {
    for name in ["-socket", "--socket", "-socket-path", "--nri-socket"] {
        let options = given(&[name, "/s"]).into_options().unwrap();
        assert_eq!(format!("{:?}", options.connection), "Found { path: Some(\"/s\") }");
    }
}

#[test]
fn the_log_says_more_the_more_it_is_asked_to() {
    for (args, verbosity) in
        [(&[][..], 0), (&["-v"], 1), (&["-vv"], 2), (&["-v", "--verbose"], 2), (&["-verbose=false"], 0)]
    {
        assert_eq!(given(args).verbosity(), verbosity, "{args:?}");
    }
}

#[test]
fn a_plugin_has_flags_of_its_own() {
    let given = given(&["-events", "all", "--watch"]);
    assert_eq!(given.value("events"), Some("all"));
    assert!(given.is_set("watch"));
    assert_eq!(given.value("socket"), None);
}

#[test]
fn a_plugin_reconnects_unless_it_is_told_not_to() {
    assert!(given(&[]).into_options().unwrap().reconnect.is_some());
    assert!(given(&["--once"]).into_options().unwrap().reconnect.is_none());
}

#[test]
fn a_configuration_is_read_from_its_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "a: 1").unwrap();
    let options = given(&["--config", file.path().to_str().unwrap()]).into_options().unwrap();
    assert_eq!(options.config.as_deref(), Some("a: 1"));
    let missing = given(&["--config", "/nowhere"]).into_options().unwrap_err();
    assert_eq!(chain(&missing), "could not read the configuration /nowhere: No such file or directory (os error 2)");
}

#[test]
fn what_is_no_flag_is_one_sentence() {
    check_error(&["-bogus"], "unknown flag --bogus; --help lists the flags");
    check_error(&["-x"], "unknown flag -x; --help lists the flags");
    check_error(&["word"], "unknown flag word; --help lists the flags");
    check_error(&["--idx"], "could not parse the flags: missing argument for option '--idx'");
}

#[test]
fn the_help_lists_every_flag_once() {
    let help = program().help();
    for flag in ["--events LIST", "--watch", "--idx NN", "--name NAME", "--socket PATH", "--config FILE", "--verbose"] {
        assert_eq!(help.matches(flag).count(), 1, "{flag}: {help}");
    }
}

#[test]
fn a_default_holds_until_the_flag_is_given_and_the_help_tells_it() {
    let program = program().flag_or("greeting", "TEXT", "hello", "what it says");
    let value = |args: &[&str]| program.parse(args).unwrap().value("greeting").map(str::to_owned);
    assert_eq!(value(&[]).as_deref(), Some("hello"));
    assert_eq!(value(&["-greeting=bye"]).as_deref(), Some("bye"));
    let help = program.help();
    assert!(help.contains("what it says (default: hello)\n"), "{help}");
    let socket = format!("or {})\n", nri_proto::defaults::SOCKET_PATH);
    assert!(help.contains(&socket), "{help}");
    for flag in ["--idx", "--name", "--config"] {
        let line = help.lines().find(|line| line.trim_start().starts_with(flag)).unwrap();
        assert!(line.contains("(default: "), "{line}");
    }
}
