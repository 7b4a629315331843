use super::*;

/// A configuration file of containerd, from containerd/containerd#9374 and containerd's defaults.
const FILE: &str = r#"
version = 3
root = "/var/lib/containerd"
required_plugins = []

[grpc]
  address = "/run/containerd/containerd.sock"
  uid = 0

[plugins."io.containerd.cri.v1.runtime"]
  max_container_log_line_size = -1
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.nri.v1.nri"]
  disable = false
  disable_connections = false
  plugin_config_path = "/etc/nri/conf.d"
  plugin_path = "/opt/nri/plugins"
  plugin_registration_timeout = "15s"
  plugin_request_timeout = "12s"
  socket_path = "/var/run/nri/nri.sock"
"#;

#[test]
fn the_section_is_found_in_containerds_own_file() {
    let config = Config::from_toml(FILE).unwrap();
    assert_eq!(config.registration_timeout, Duration::from_secs(15));
    assert_eq!(config.policies.defaults.request_timeout, Some(Duration::from_secs(12)));
}

#[test]
fn our_own_tables_may_lie_in_it() {
    let ours = "[plugins.'io.containerd.nri.v1.nri'.plugins.10-logger]\nrequired = true";
    let config = Config::from_toml(&format!("{FILE}\n{ours}")).unwrap();
    assert!(config.policies.required().eq([&"10-logger".parse().unwrap()]));
}

#[test]
fn a_file_of_containerds_without_the_section_is_the_default() {
    assert_eq!(Config::from_toml("version = 3"), Ok(Config::default()));
    assert_eq!(Config::from_toml("[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = true"), Ok(Config::default()));
}

#[test]
fn problems_in_it_are_told_with_their_place() {
    refused(
        "[plugins.'io.containerd.nri.v1.nri']\nplugin_requst_timeout = '1s'",
        &[
            r#"line 2: unknown key plugins."io.containerd.nri.v1.nri".plugin_requst_timeout, did you mean plugin_request_timeout?"#,
        ],
    );
    refused(
        "[plugins]\n'io.containerd.nri.v1.nri' = 1",
        &[r#"line 2: plugins."io.containerd.nri.v1.nri" is 1, but must be a table"#],
    );
}

/// A tool wrote such keys to the root of the file for two years, unnoticed
/// (containers/nri-plugins#745).
#[test]
fn timeouts_at_the_root_of_containerds_file_are_not_ignored() {
    refused(
        &format!("plugin_request_timeout = '20s'\nplugin_registration_timeout = '25s'\n{FILE}"),
        &[
            r#"line 1: plugin_request_timeout has no effect here, it belongs in [plugins."io.containerd.nri.v1.nri"]"#,
            r#"line 2: plugin_registration_timeout has no effect here, it belongs in [plugins."io.containerd.nri.v1.nri"]"#,
        ],
    );
    refused(
        "version = 2\nplugin_request_timeout = '20s'",
        &[r#"line 2: plugin_request_timeout has no effect here, it belongs in [plugins."io.containerd.nri.v1.nri"]"#],
    );
}

#[test]
fn keys_and_tables_of_ours_beside_the_section_are_not_ignored() {
    refused(
        "[plugins.'io.containerd.cri.v1.runtime']\nplugin_request_timeout = '20s'\nsocket_path = 'theirs'",
        &[
            r#"line 2: plugins."io.containerd.cri.v1.runtime".plugin_request_timeout has no effect here, it belongs in [plugins."io.containerd.nri.v1.nri"]"#,
        ],
    );
    refused(
        &format!("{FILE}\n[plugins.10-logger]\nrequired = true"),
        &[
            r#"line 24: plugins.10-logger has no effect here, it belongs in [plugins."io.containerd.nri.v1.nri".plugins]"#,
        ],
    );
    refused(
        "version = 3\n[plugin_defaults]\nstrikes = 1",
        &[r#"line 2: plugin_defaults has no effect here, it belongs in [plugins."io.containerd.nri.v1.nri"]"#],
    );
}

#[test]
fn nri_is_disabled_if_it_is_one_of_the_disabled_plugins() {
    let off = Config { disable: true, ..Config::default() };
    assert_eq!(Config::from_toml("disabled_plugins = ['io.containerd.nri.v1.nri']"), Ok(off.clone()));
    let both = "version = 3\ndisabled_plugins = ['io.containerd.nri.v1.nri']\n\
                [plugins.'io.containerd.nri.v1.nri']\ndisable = false";
    assert_eq!(Config::from_toml(both), Ok(off));
    let other = "version = 3\ndisabled_plugins = ['io.containerd.snapshotter.v1.zfs']";
    assert_eq!(Config::from_toml(other), Ok(Config::default()));
    refused(
        "disabled_plugins = 'io.containerd.nri.v1.nri'",
        &[r#"line 1: disabled_plugins is "io.containerd.nri.v1.nri", but must be a list of texts"#],
    );
}
