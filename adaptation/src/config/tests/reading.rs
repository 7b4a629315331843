use nri_proto::{Event, Field};

use super::*;
use crate::config::policy::{
    Allowed, AllowedChanges, AllowedOrigin, Concurrency, Declarations, Mode, Namespaces, OnTimeout, PluginOrigin,
    Policies, PolicyRules, Uids, Unnamed,
};

#[test]
fn an_empty_text_is_the_default() {
    assert_eq!(Config::from_toml(""), Ok(Config::default()));
    assert_eq!(Config::from_toml("[plugin_defaults]\n[plugins]"), Ok(Config::default()));
}

#[test]
fn containerds_section_is_taken_as_it_is() {
    let text = r#"
        disable = true
        disable_connections = false
        socket_path = "/run/n.sock"
        plugin_path = "/p"
        plugin_config_path = "/c"
        plugin_registration_timeout = "15s"
        plugin_request_timeout = "1m30s"
        [default_validator]
        enable = true
        reject_oci_hook_adjustment = true
        reject_runtime_default_seccomp_adjustment = true
        reject_unconfined_seccomp_adjustment = true
        reject_custom_seccomp_adjustment = true
        reject_namespace_adjustment = true
        reject_sysctl_adjustment = true
        required_plugins = ["a", "10-b"]
        tolerate_missing_plugins_annotation = "tolerate.example.org"
    "#;
    let expected = Config {
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
            reject_sysctl_adjustment: true,
            required_plugins: vec!["a".to_owned(), "10-b".to_owned()],
            tolerate_missing_plugins_annotation: "tolerate.example.org".to_owned(),
        }),
        ..Config::default()
    };
    assert_eq!(Config::from_toml(text), Ok(expected));
}

#[test]
fn what_containerd_takes_for_nothing_said_is_nothing_said() {
    let text = r#"
        socket_path = ""
        plugin_path = ""
        plugin_config_path = ""
        plugin_registration_timeout = "0s"
        plugin_request_timeout = 0
    "#;
    assert_eq!(Config::from_toml(text), Ok(Config::default()));
}

#[test]
fn without_connections_there_is_no_socket() {
    let config = Config::from_toml("socket_path = '/run/n.sock'\ndisable_connections = true").unwrap();
    assert_eq!(config.socket, None);
}

#[test]
fn each_axis_can_be_said_for_all_and_for_some() {
    let axes = r#"
        strikes = 1
        on_timeout = "fail"
        keep_connected = true
        declarations = "ignore"
        request_timeout = "1s"
        sync_timeout = "2s"
        join_timeout = "3s"
        lane_timeout = "4s"
        catch_up_timeout = "5s"
        first_pause = "6s"
        longest_pause = "7s"
        concurrency = "per-pod"
        uids = [0]
        origin = "connected"
        namespaces = ["shop"]
        mode = "shadow"
        allow.changes = ["Env"]
        allow.events = ["CreateContainer", "ValidateContainerAdjustment"]
    "#;
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let rules = PolicyRules {
        required: None,
        on_timeout: Some(OnTimeout::Fail),
        strikes: 1.try_into().ok(),
        keep_connected: Some(true),
        declarations: Some(Declarations::Ignore),
        request_timeout: seconds(1),
        sync_timeout: seconds(2),
        join_timeout: seconds(3),
        lane_timeout: seconds(4),
        catch_up_timeout: seconds(5),
        first_pause: seconds(6),
        longest_pause: seconds(7),
        concurrency: Some(Concurrency::PerPod),
        validator: None,
        allow: Some(Allowed {
            changes: Some(AllowedChanges::of([Field::Env])),
            events: Some([Event::CreateContainer, Event::ValidateContainerAdjustment].into_iter().collect()),
        }),
        uids: Some(Uids::Only([0].into())),
        origin: Some(AllowedOrigin::Only(PluginOrigin::Connected)),
        namespaces: Namespaces::of(["shop"]).ok(),
        mode: Some(Mode::Shadow),
    };
    let required = PolicyRules { required: Some(true), validator: Some(true), ..rules.clone() };
    let named = format!("required = true\nvalidator = true\n{axes}");
    let text = format!("[plugin_defaults]\n{axes}\n[plugins.a]\n{axes}\n[plugins.\"10-b\"]\n{named}");
    let plugins = [("a".parse().unwrap(), rules.clone()), ("10-b".parse().unwrap(), required)].into();
    assert_eq!(
        Config::from_toml(&text).unwrap().policies,
        Policies { defaults: rules, plugins, ..Policies::default() }
    );
}

#[test]
fn limits_are_read() {
    let config = Config::from_toml(
        "allowed_uids = [0, 1000]\nsocket_gid = 0\nmax_unregistered = 1\nmax_plugins = 4096\nshutdown_grace = '2m'",
    );
    let expected = Config {
        allowed_uids: vec![0, 1000],
        socket_gid: Some(0),
        max_unregistered: 1,
        max_plugins: 4096,
        shutdown_grace: Duration::from_mins(2),
        ..Config::default()
    };
    assert_eq!(config, Ok(expected));
    let text = "unnamed = 'refuse'\nrequired_tolerate_annotation = 'tolerate.example.org'";
    let expected = Config {
        policies: Policies { unnamed: Unnamed::Refuse, ..Policies::default() },
        required_tolerate_annotation: "tolerate.example.org".to_owned(),
        ..Config::default()
    };
    assert_eq!(Config::from_toml(text), Ok(expected));
    assert_eq!(Config::from_toml("shutdown_grace = '0'").unwrap().shutdown_grace, Duration::ZERO);
}

#[test]
fn the_budget_of_a_request_is_three_request_timeouts_unless_it_is_set() {
    let (set, timeouts) = (RequestBudget::Set, RequestBudget::Timeouts);
    let check = |text: &str, budget: fn(Duration) -> RequestBudget, milliseconds: u64| {
        let config = Config::from_toml(text).unwrap();
        assert_eq!(config.request_budget(), budget(Duration::from_millis(milliseconds)), "{text}");
    };
    check("", timeouts, 2000);
    check("plugin_request_timeout = '500ms'", timeouts, 500);
    check("plugin_defaults.request_timeout = '500ms'\nplugins.a.request_timeout = '1h'", timeouts, 500);
    check("plugin_request_timeout = '500ms'\nrequest_budget = '1s'", set, 1000);
    check("request_budget = '0s'", timeouts, 2000);
}

#[test]
fn it_can_be_a_table_in_a_file_of_another_program() {
    #[derive(serde::Deserialize)]
    struct Theirs {
        nri: Config,
    }
    let theirs: Theirs = toml::from_str("[nri]\nmax_plugins = 7\n[nri.plugins.a]\nrequired = true").unwrap();
    assert_eq!(theirs.nri.max_plugins, 7);
    assert!(theirs.nri.policies.required().eq([&"a".parse().unwrap()]));

    let error = toml::from_str::<Theirs>("[nri]\nmax_plugin = 7\nstrikes = 1").err().unwrap();
    let expected =
        "unknown key max_plugin, did you mean max_plugins?; unknown key strikes, did you mean plugin_defaults.strikes?";
    assert_eq!(error.message(), expected);
}

#[test]
fn processes_of_root_and_of_our_own_user_may_connect() {
    let own = rustix::process::geteuid().as_raw();
    let allowed = Config::default().allowed_uids;
    assert!(allowed.contains(&0) && allowed.contains(&own));
}
