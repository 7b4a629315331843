use super::*;
use crate::config::policy::{Policies, PolicyRules};

/// A configuration file of CRI-O: its own template with all keys set.
const FILE: &str = r#"
[crio]
root = "/var/lib/containers/storage"
log_dir = "/var/log/crio/pods"

[crio.api]
listen = "/var/run/crio/crio.sock"

[crio.runtime]
default_runtime = "crun"
[crio.runtime.runtimes.crun]
runtime_path = "/usr/bin/crun"

[crio.network]
plugin_dirs = ["/opt/cni/bin/"]

[crio.nri]
enable_nri = false
nri_listen = "/run/n.sock"
nri_plugin_dir = "/p"
nri_plugin_config_dir = "/c"
nri_disable_connections = false
nri_plugin_registration_timeout = "15s"
nri_plugin_request_timeout = "1m30s"
[crio.nri.default_validator]
nri_enable_default_validator = true
nri_validator_reject_oci_hook_adjustment = true
nri_validator_reject_runtime_default_seccomp_adjustment = true
nri_validator_reject_unconfined_seccomp_adjustment = true
nri_validator_reject_custom_seccomp_adjustment = true
nri_validator_reject_namespace_adjustment = true
nri_validator_required_plugins = [
    "a",
    "10-b",
]
nri_validator_tolerate_missing_plugins_annotation = "tolerate.example.org"
"#;

fn expected() -> Config {
    Config {
        disable: true,
        socket: Some("/run/n.sock".into()),
        plugin_path: Some("/p".into()),
        plugin_config_path: Some("/c".into()),
        registration_timeout: Duration::from_secs(15),
        policies: Policies {
            defaults: PolicyRules { request_timeout: Some(Duration::from_secs(90)), ..PolicyRules::default() },
            ..Policies::default()
        },
        default_validator: Some(DefaultValidator {
            enable: true,
            reject_oci_hook_adjustment: true,
            reject_runtime_default_seccomp_adjustment: true,
            reject_unconfined_seccomp_adjustment: true,
            reject_custom_seccomp_adjustment: true,
            reject_namespace_adjustment: true,
            reject_sysctl_adjustment: false,
            required_plugins: vec!["a".to_owned(), "10-b".to_owned()],
            tolerate_missing_plugins_annotation: "tolerate.example.org".to_owned(),
        }),
        ..Config::default()
    }
}

#[track_caller]
fn check(text: &str, expected: &Config) {
    assert_eq!(Config::from_crio(text).as_ref(), Ok(expected));
    assert_eq!(Config::from_toml(text).as_ref(), Ok(expected));
}

#[test]
fn crios_table_is_taken_as_it_is_from_its_own_file() {
    check(FILE, &expected());
}

#[test]
fn a_file_that_has_nothing_but_the_table_is_read_too() {
    check(&FILE[FILE.find("[crio.nri]").unwrap()..], &expected());
}

#[test]
fn the_table_is_read_alone() {
    let alone = FILE[FILE.find("[crio.nri]").unwrap()..].replace("[crio.nri]\n", "").replace("crio.nri.", "");
    check(&alone, &expected());
}

#[test]
fn crios_own_defaults_are_ours() {
    let defaults = r#"
        [crio.nri]
        enable_nri = true
        nri_listen = "/var/run/nri/nri.sock"
        nri_plugin_dir = "/opt/nri/plugins"
        nri_plugin_config_dir = "/etc/nri/conf.d"
        nri_disable_connections = false
        nri_plugin_registration_timeout = "5s"
        nri_plugin_request_timeout = "0s"
    "#;
    check(defaults, &Config::default());
    check("[crio]\n[crio.runtime]\ndefault_runtime = 'crun'", &Config::default());
}

#[test]
fn our_own_keys_may_lie_in_it() {
    let ours = "[crio.nri]\nmax_plugins = 7\n[crio.nri.plugins.topology]\nrequired = true";
    let config = Config::from_crio(ours).unwrap();
    assert_eq!(config.max_plugins, 7);
    assert!(config.policies.required().eq([&"topology".parse().unwrap()]));
}

#[test]
fn without_connections_there_is_no_socket() {
    let config = Config::from_crio("[crio.nri]\nnri_listen = '/run/n.sock'\nnri_disable_connections = true").unwrap();
    assert_eq!(config.socket, None);
}

#[test]
fn what_crio_takes_for_nothing_said_is_nothing_said() {
    check("nri_listen = ''\nnri_plugin_dir = ''\nnri_plugin_config_dir = ''", &Config::default());
    check("nri_plugin_request_timeout = 0\nnri_plugin_registration_timeout = '0'", &Config::default());
}

#[test]
fn a_timeout_that_is_a_number_is_one_of_nanoseconds() {
    let registration_timeout = Duration::from_millis(1500);
    let expected = Config { registration_timeout, ..Config::default() };
    check("[crio.nri]\nnri_plugin_registration_timeout = 1_500_000_000", &expected);
    let range = r#"a duration from "1ms" to "24h""#;
    for (value, why) in [("5", ""), ("-5", r#": negative duration "-5ns""#)] {
        let key = "nri_plugin_request_timeout";
        refused(&format!("{key} = {value}"), &[&format!("line 1: {key} is {value}, but must be {range}{why}")]);
    }
    refused(
        "plugin_request_timeout = 5",
        &[&format!("line 1: plugin_request_timeout is 5, but must be {range}, as text")],
    );
}

#[test]
fn an_unknown_key_is_named_with_its_place_and_the_nearest_known_one() {
    refused("[crio.nri]\nnri_listn = '/s'", &["line 2: unknown key crio.nri.nri_listn, did you mean nri_listen?"]);
    refused(
        "[crio.nri.default_validator]\nnri_validator_required_plugin = []",
        &["line 2: unknown key crio.nri.default_validator.nri_validator_required_plugin, did you mean \
             nri_validator_required_plugins?"],
    );
    refused("[crio]\nnri = 1", &["line 2: crio.nri is 1, but must be a table"]);
    refused("[crio.nri]\nenable_nri = 'yes'", &[r#"line 2: crio.nri.enable_nri is "yes", but must be true or false"#]);
    let both = "[crio.nri]\nnri_plugin_request_timeout = '1s'\nplugin_defaults.request_timeout = '2s'";
    refused(both, &["line 2: crio.nri.nri_plugin_request_timeout contradicts plugin_defaults.request_timeout"]);
}

#[test]
fn a_name_of_the_other_runtime_is_told_with_the_one_that_is_right() {
    refused(
        "[crio.nri]\nsocket_path = '/s'\ndisable = true",
        &[
            "line 2: unknown key crio.nri.socket_path, did you mean nri_listen?",
            "line 3: unknown key crio.nri.disable, did you mean enable_nri?",
        ],
    );
    refused(
        "[crio.nri.default_validator]\nenable = true",
        &["line 2: unknown key crio.nri.default_validator.enable, did you mean nri_enable_default_validator?"],
    );
    refused(
        "[plugins.'io.containerd.nri.v1.nri']\nnri_listen = '/s'",
        &[r#"line 2: unknown key plugins."io.containerd.nri.v1.nri".nri_listen, did you mean socket_path?"#],
    );
}

#[test]
fn keys_and_tables_of_ours_beside_the_table_are_not_ignored() {
    refused(
        "nri_listen = '/s'\n[crio]\nenable_nri = true\n[crio.runtime]\nnri_plugin_dir = '/p'\n[crio.plugins.a]\n\
         [plugin_defaults]",
        &[
            "line 1: nri_listen has no effect here, it belongs in [crio.nri]",
            "line 3: crio.enable_nri has no effect here, it belongs in [crio.nri]",
            "line 5: crio.runtime.nri_plugin_dir has no effect here, it belongs in [crio.nri]",
            "line 6: crio.plugins has no effect here, it belongs in [crio.nri]",
            "line 7: plugin_defaults has no effect here, it belongs in [crio.nri]",
        ],
    );
}
