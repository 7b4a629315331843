use std::fs;

use super::*;

/// Writes a text to a file of this name and loads the file.
fn load(name: &str, text: &str) -> Result<Config, LoadError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    Config::load(path)
}

#[test]
fn a_file_is_read_by_what_is_in_it() {
    for (name, text) in [
        ("config.toml", "plugin_path = '/p'"),
        ("config.toml", "version = 3\n[plugins.'io.containerd.nri.v1.nri']\nplugin_path = '/p'"),
        ("crio.conf", "[crio.nri]\nnri_plugin_dir = '/p'"),
        ("nri.conf", "plugin_path = '/p'"),
    ] {
        let expected = Config { plugin_path: Some("/p".into()), ..Config::default() };
        assert_eq!(load(name, text).unwrap(), expected, "{text}");
    }
    assert_eq!(load("other.conf", "disableConnections: true").unwrap().socket, None);
    assert_eq!(load("empty.toml", "").unwrap(), Config::default());
}

#[test]
fn beside_nris_own_file_is_the_configuration_of_plugins() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nri.conf");
    let expected = Config { plugin_config_path: Some(dir.path().join("conf.d")), ..Config::default() };
    assert_eq!(Config::load(&path).unwrap(), expected, "it need not be there");
    for text in ["", "\n", "disableConnections: false"] {
        fs::write(&path, text).unwrap();
        assert_eq!(Config::load(&path).unwrap(), expected, "{text}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = Config::load("/nowhere/config.toml").unwrap_err();
    assert_eq!(error.to_string(), "could not read /nowhere/config.toml");
    assert!(load("nri.conf", "a: 1").unwrap_err().to_string().ends_with("nri.conf cannot be used"));
}

#[test]
fn text_that_is_nothing_at_all_is_told_as_no_toml() {
    let LoadError::Content { source, .. } = load("config.toml", "max_plugins = \n[plugins").unwrap_err() else {
        panic!("it was read")
    };
    assert!(source.problems().iter().all(|problem| matches!(problem.fault, Fault::Syntax(_))), "{source}");
}

#[test]
fn the_policies_of_an_nri_conf_are_in_it_in_toml() {
    let config = load("nri.conf", "disable_connections = true\n[plugins.guard]\nrequired = true").unwrap();
    assert_eq!(config.socket, None);
    assert!(config.policies.required().eq([&"guard".parse().unwrap()]));
    let error =
        load("nri.conf", "disableConnections: true\nplugins: {guard: {required: true}}\nmax_plugins: 1").unwrap_err();
    let told = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(
        told,
        "line 2: plugins is known only in TOML: write the whole file in TOML, with disable_connections; \
         line 3: max_plugins is known only in TOML: write the whole file in TOML, with disable_connections"
    );
}
