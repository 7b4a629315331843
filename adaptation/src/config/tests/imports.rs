//! The imports of containerd's configuration file.

use std::error::Error;
use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::config::imports::imported;

const TABLE: &str = "[plugins.'io.containerd.nri.v1.nri']\n";

/// Creates a directory with these files: pairs of a name and a text.
fn files(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

/// Loads the `config.toml` in a directory.
#[track_caller]
fn read(texts: &[(&str, &str)]) -> Config {
    Config::load(files(texts).path().join("config.toml")).unwrap()
}

/// Returns the name of the file that cannot be used, and the error.
#[track_caller]
fn fails(texts: &[(&str, &str)]) -> (String, String) {
    let dir = files(texts);
    let error = Config::load(dir.path().join("config.toml")).expect_err("it was read");
    let file = match &error {
        LoadError::Read { path, .. } | LoadError::Content { path, .. } | LoadError::TooMany { path, .. } => path,
    };
    let file = file.strip_prefix(dir.path()).unwrap_or(Path::new("?")).to_string_lossy().into_owned();
    (file, error.source().map_or_else(|| error.to_string(), ToString::to_string))
}

/// Containerd 2.4.2 reads the same files with the same result.
#[test]
fn what_is_read_later_counts_key_by_key() {
    let main = format!(
        "version = 3\nimports = ['conf.d/*.toml', 'sub/x.toml']\n{TABLE}\
         plugin_path = '/main'\nsocket_path = '/main.sock'\nallowed_uids = [1, 2]\nplugins.a.required = true\nplugins.a.strikes = 5"
    );
    let config = read(&[
        ("config.toml", &main),
        ("conf.d/1.toml", &format!("imports = ['../sub/y.toml']\n{TABLE}allowed_uids = [3]\nplugins.a.strikes = 7")),
        ("conf.d/2.toml", &format!("{TABLE}plugin_path = '/2'")),
        ("conf.d/3.conf", "this is no TOML and is not imported"),
        ("sub/x.toml", &format!("version = 2\n{TABLE}plugin_path = '/x'\nplugin_config_path = '/x'")),
        ("sub/y.toml", &format!("{TABLE}plugin_config_path = '/y'")),
    ]);
    assert_eq!(config.socket, Some("/main.sock".into()));
    assert_eq!(config.plugin_path, Some("/x".into()));
    assert_eq!(config.plugin_config_path, Some("/y".into()), "what is imported by imports comes last");
    assert_eq!(config.allowed_uids, [3], "lists are not joined");
    let rules = &config.policies.plugins[&"a".parse().unwrap()];
    assert_eq!((rules.required, rules.strikes), (Some(true), 7.try_into().ok()));
}

#[test]
fn what_is_disabled_in_any_file_is_disabled() {
    let config = read(&[
        ("config.toml", "imports = ['a.toml', 'b.toml']\ndisabled_plugins = ['io.containerd.x.v1.y']"),
        ("a.toml", "disabled_plugins = ['io.containerd.nri.v1.nri']"),
        ("b.toml", "disabled_plugins = []"),
    ]);
    assert!(config.disable);
}

#[test]
fn files_that_import_each_other_are_read_once() {
    let config = read(&[
        ("config.toml", &format!("version = 3\nimports = ['a.toml', './a.toml']\n{TABLE}max_plugins = 1")),
        ("a.toml", &format!("imports = ['config.toml', '*.toml']\n{TABLE}max_plugins = 2")),
    ]);
    assert_eq!(config.max_plugins, 2);
}

#[test]
fn a_pattern_that_nothing_matches_imports_nothing() {
    let dir = files(&[("config.toml", "version = 3\nimports = ['/nowhere/at/all/*.toml', 'conf.d/*.toml']")]);
    assert_eq!(Config::load(dir.path().join("config.toml")).unwrap(), Config::default());
}

#[test]
fn beside_a_file_without_a_directory_is_the_current_one() {
    let file = toml::from_str("imports = ['Cargo*ml', 'src/lib.rs']").unwrap();
    let found = imported(Path::new("config.toml"), &file).unwrap();
    assert_eq!(
        found.iter().map(|path| path.canonicalize().unwrap()).collect::<Vec<_>>(),
        [
            Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml").canonicalize().unwrap(),
            Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs").canonicalize().unwrap(),
        ]
    );
}

#[test]
fn what_is_wrong_is_told_with_the_file_that_it_is_in() {
    let main = ("config.toml", "version = 3\nimports = ['a.toml']");
    let missing = fails(&[main]);
    assert_eq!(missing.0, "a.toml");
    assert!(missing.1.contains("No such file"), "{missing:?}");
    let typo = fails(&[main, ("a.toml", &format!("# typo\n{TABLE}max_plugin = 1"))]);
    assert_eq!(typo.0, "a.toml");
    assert!(typo.1.starts_with("line 3: unknown key") && typo.1.ends_with("did you mean max_plugins?"), "{typo:?}");
    let stray = fails(&[main, ("a.toml", "plugin_request_timeout = '1s'")]);
    assert!(stray.1.starts_with("line 1: plugin_request_timeout has no effect here, it belongs in"), "{stray:?}");
    let pattern = fails(&[("config.toml", "imports = ['a***']")]);
    assert!(pattern.1.starts_with(r#"imports is "a***", but must be a pattern"#), "{pattern:?}");
    let number = fails(&[("config.toml", "version = 3\nimports = [1]")]);
    assert_eq!(number.1, "line 2: imports is [1], but must be a list of texts");
}

#[test]
fn what_two_files_say_together_is_looked_at_and_not_what_one_says_alone() {
    let required = format!("version = 3\nimports = ['a.toml']\n{TABLE}plugins.a.required = true");
    let trial = format!("{TABLE}plugin_defaults.mode = 'shadow'");
    let (file, why) = fails(&[("config.toml", &required), ("a.toml", &trial)]);
    assert_eq!(file, "config.toml");
    assert!(why.contains("plugin_defaults.mode puts the plugin in shadow mode"), "{why}");
    let both = format!("{required}\nplugin_defaults.mode = 'shadow'");
    read(&[("config.toml", &both), ("a.toml", &format!("{TABLE}plugin_defaults.mode = 'enforce'"))]);
}

#[test]
fn more_files_than_anyone_needs_are_refused() {
    let dir = files(&[("config.toml", "imports = ['many/*.toml']")]);
    fs::create_dir(dir.path().join("many")).unwrap();
    for number in 0..300 {
        fs::write(dir.path().join(format!("many/{number}.toml")), "").unwrap();
    }
    let error = Config::load(dir.path().join("config.toml")).unwrap_err();
    assert!(error.to_string().ends_with("config.toml imports more than 256 files"), "{error}");
}

#[test]
fn who_may_connect_may_be_said_in_another_file_than_who_may_be_a_plugin() {
    let guard = format!("{TABLE}plugins.guard.uids = [991]");
    let main = format!("imports = ['guard.toml']\n{TABLE}allowed_uids = [0, 991]");
    let config = read(&[("config.toml", &main), ("guard.toml", &guard)]);
    assert_eq!(config.allowed_uids, [0, 991]);
    let (file, problem) = fails(&[("config.toml", "imports = ['guard.toml']"), ("guard.toml", &guard)]);
    assert_eq!(file, "config.toml");
    assert!(problem.contains("names user 991, who may not connect"), "{problem}");
}
