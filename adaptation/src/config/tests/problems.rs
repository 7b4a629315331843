use super::*;
use crate::config::policy::Unnamed;

#[test]
fn an_unknown_key_is_named_with_its_place_and_the_nearest_known_one() {
    refused(
        "[plugins.10-logger]\nrequest_timout = '2s'",
        &["line 2: unknown key plugins.10-logger.request_timout, did you mean request_timeout?"],
    );
    refused(
        "plugin_requst_timeout = '2s'",
        &["line 1: unknown key plugin_requst_timeout, did you mean plugin_request_timeout?"],
    );
    refused("[plugin_default]\n", &["line 1: unknown key plugin_default, did you mean plugin_defaults?"]);
    refused(
        "[plugins.a]\nkeepConnected = true",
        &["line 2: unknown key plugins.a.keepConnected, did you mean keep_connected?"],
    );
    refused(
        "[plugins.a]\non-timeout = 'fail'",
        &["line 2: unknown key plugins.a.on-timeout, did you mean on_timeout?"],
    );
    refused(
        "[default_validator]\nreject_oci_hooks_adjustment = true",
        &[
            "line 2: unknown key default_validator.reject_oci_hooks_adjustment, did you mean reject_oci_hook_adjustment?",
        ],
    );
    refused("bananas = 1", &["line 1: unknown key bananas"]);
}

#[test]
fn a_key_in_the_wrong_table_is_told_which_is_the_right_one() {
    refused("strikes = 1", &["line 1: unknown key strikes, did you mean plugin_defaults.strikes?"]);
    refused(
        "request_timeout = '1s'",
        &["line 1: unknown key request_timeout, did you mean plugin_defaults.request_timeout?"],
    );
    refused(
        "[plugins.a]\nplugin_request_timeout = '1s'",
        &["line 2: unknown key plugins.a.plugin_request_timeout, did you mean request_timeout?"],
    );
}

#[test]
fn a_value_that_cannot_be_is_named_with_what_it_must_be() {
    refused("disable = 'no'", &[r#"line 1: disable is "no", but must be true or false"#]);
    refused("socket_path = 1", &["line 1: socket_path is 1, but must be a path, as text"]);
    refused("allowed_uids = [0, -1]", &["line 1: allowed_uids is [0, -1], but must be a list of user ids"]);
    for gid in ["-1", "4294967295"] {
        let expected = format!("line 1: socket_gid is {gid}, but must be a group id, as a number");
        refused(&format!("socket_gid = {gid}"), &[&expected]);
    }
    refused("max_plugins = 0", &["line 1: max_plugins is 0, but must be a whole number from 1 to 4096"]);
    refused("plugins = 1", &["line 1: plugins is 1, but must be a table"]);
    refused("[plugins]\na = 1", &["line 2: plugins.a is 1, but must be a table"]);
    refused("default_validator = true", &["line 1: default_validator is true, but must be a table"]);
    refused(
        "[default_validator]\nrequired_plugins = 'a'",
        &[r#"line 2: default_validator.required_plugins is "a", but must be a list of texts"#],
    );
    refused(
        "[plugin_defaults]\nstrikes = 0",
        &["line 2: plugin_defaults.strikes is 0, but must be a whole number from 1 to 4294967295"],
    );
    refused(
        "[plugin_defaults]\non_timeout = 'Fail'",
        &[r#"line 2: plugin_defaults.on_timeout is "Fail", but must be "skip" or "fail""#],
    );
}

#[test]
fn a_duration_that_cannot_be_is_told_why() {
    let check = |value: &str, why: &str| {
        let shown = value.replace('\'', "\"");
        let range = r#"a duration from "1ms" to "24h""#;
        let expected = format!("line 2: plugins.a.lane_timeout is {shown}, but must be {range}{why}");
        refused(&format!("[plugins.a]\nlane_timeout = {value}"), &[&expected]);
    };
    check("2", ", as text");
    check("'2'", r#": missing unit in duration "2""#);
    check("'2sec'", r#": unknown unit "sec" in duration "2sec""#);
    check("'-2s'", r#": negative duration "-2s""#);
    check("'soon'", r#": invalid duration "soon""#);
    check("'0s'", "");
    check("'1us'", "");
    check("'24h1ns'", "");
    refused(
        "request_budget = '25h'",
        &[r#"line 1: request_budget is "25h", but must be a duration from "1ms" to "24h""#],
    );
    refused(
        "plugin_request_timeout = '-2s'",
        &[
            r#"line 1: plugin_request_timeout is "-2s", but must be a duration from "1ms" to "24h": negative duration "-2s""#,
        ],
    );
}

#[test]
fn a_table_about_no_plugin_is_refused() {
    refused(
        "[plugins.5-logger]",
        &[r#"line 1: plugins.5-logger is not the name of a plugin: the index of "5-logger" must be 2 digits"#],
    );
    refused(
        "[plugins.'a b']",
        &[
            r#"line 1: plugins."a b" is not the name of a plugin: invalid plugin name "a b": contains invalid character ' '"#,
        ],
    );
}

#[test]
fn plugins_are_required_by_name() {
    refused(
        "[plugin_defaults]\nrequired = true",
        &["line 2: plugin_defaults.required needs a plugin name: set it in the table of a plugin"],
    );
    assert_eq!(Config::from_toml("[plugin_defaults]\nrequired = false"), Ok(Config::default()));
}

#[test]
fn validators_are_required_by_name_too() {
    refused(
        "[plugin_defaults]\nvalidator = true",
        &["line 2: plugin_defaults.validator needs a plugin name: set it in the table of a plugin"],
    );
    assert_eq!(Config::from_toml("[plugin_defaults]\nvalidator = false"), Ok(Config::default()));
}

#[test]
fn what_cannot_be_allowed_is_told_with_the_nearest_that_can() {
    let check = |allow: &str, expected: &str| {
        let expected = format!("line 2: plugins.a.allow is {allow}, but must be a table{expected}");
        refused(&format!("[plugins.a]\nallow = {allow}"), &[&expected]);
    };
    let fields = " whose changes are fields, Resources, Updates and Evictions";
    check(r#"{ changes = ["Enf"] }"#, &format!(r#"{fields}: there is no "Enf", did you mean "Env"?"#));
    check(r#"{ changes = ["memlimit"] }"#, &format!(r#"{fields}: there is no "memlimit", did you mean "MemLimit"?"#));
    check(r#"{ changes = ["resource"] }"#, &format!(r#"{fields}: there is no "resource", did you mean "Resources"?"#));
    check(r#"{ changes = ["None"] }"#, &format!(r#"{fields}: there is no "None""#));
    check(r#"{ changes = ["xyz"] }"#, &format!(r#"{fields}: there is no "xyz""#));
    check(r#"{ changes = "Env" }"#, " whose changes are a list of texts");
    let events = " whose events are those of NRI";
    let create = r#"there is no "CreateContianer", did you mean "CreateContainer"?"#;
    check(r#"{ events = ["CreateContianer"] }"#, &format!("{events}: {create}"));
    check(r#"{ change = ["Env"] }"#, r#" of changes and events: there is no "change", did you mean "changes"?"#);
    check(r#"["Env"]"#, r#" such as { changes = ["Env"], events = ["CreateContainer"] }"#);
}

#[test]
fn what_is_no_namespace_is_refused() {
    let expected = "a list of namespaces, each of which may end in *";
    refused(
        "required_exempt_namespaces = ['Kube']\n[plugins.a]\nnamespaces = 'kube'",
        &[
            &format!(
                r#"line 1: required_exempt_namespaces is ["Kube"], but must be {expected}: "Kube" cannot be the name of a namespace"#
            ),
            &format!(r#"line 3: plugins.a.namespaces is "kube", but must be {expected}"#),
        ],
    );
}

#[test]
fn one_timeout_said_twice_must_be_the_same() {
    refused(
        "plugin_request_timeout = '1s'\nplugin_defaults.request_timeout = '2s'",
        &["line 1: plugin_request_timeout contradicts plugin_defaults.request_timeout"],
    );
    assert!(Config::from_toml("plugin_request_timeout = '1s'\nplugin_defaults.request_timeout = '1000ms'").is_ok());
}

#[test]
fn all_problems_are_told_at_once_in_the_order_of_their_lines() {
    let text = "max_plugins = 0\n[plugins.b]\nstrikes = 0\nstrike = 1\n[plugins.a]\nconcurrency = 'pod'\n[plugin_defaults]\nrequired = 1";
    let expected = [
        "line 1: max_plugins is 0, but must be a whole number from 1 to 4096",
        "line 3: plugins.b.strikes is 0, but must be a whole number from 1 to 4294967295",
        "line 4: unknown key plugins.b.strike, did you mean strikes?",
        r#"line 6: plugins.a.concurrency is "pod", but must be "serial" or "per-pod""#,
        "line 8: plugin_defaults.required is 1, but must be true or false",
    ];
    refused(text, &expected);
    assert_eq!(Config::from_toml(text).unwrap_err().to_string(), expected.join("; "));
}

#[test]
fn text_that_is_no_toml_is_refused_with_each_line() {
    let error = Config::from_toml("max_plugins = \n[plugins\ndisable = true\ndisable = false").unwrap_err();
    let lines: Vec<_> = error.problems().iter().filter_map(|problem| problem.line).collect();
    assert!(lines.contains(&1) && lines.contains(&2), "{error}");
    assert!(error.problems().iter().all(|problem| matches!(problem.fault, Fault::Syntax(_))), "{error}");
    assert!(Config::from_toml("max_plugins = 99999999999999999999").is_err());
}

#[test]
fn a_long_value_is_not_repeated_as_a_whole() {
    let error = Config::from_toml(&format!("disable = '{}'", "é".repeat(100_000))).unwrap_err().to_string();
    assert!(error.len() < 300, "{error}");
}

#[test]
fn whom_one_table_demands_no_other_puts_on_trial() {
    refused(
        "[plugins.guard]\nrequired = true\n[plugins.10-guard]\nmode = 'shadow'",
        &["line 4: plugins.10-guard.mode puts the plugin in shadow mode, so plugins.guard.required has no effect"],
    );
    refused(
        "[plugins.10-judge]\nvalidator = true\n[plugins.judge]\nmode = 'shadow'",
        &["line 4: plugins.judge.mode puts the plugin in shadow mode, so plugins.10-judge.validator has no effect"],
    );
    refused(
        "[plugin_defaults]\nmode = 'shadow'\n[plugins.guard]\nrequired = true\n[plugins.10-guard]\nstrikes = 1",
        &["line 2: plugin_defaults.mode puts the plugin in shadow mode, so plugins.guard.required has no effect"],
    );
    refused(
        "[plugins.guard]\nrequired = true\n[plugins.10-guard]\nrequired = true\nmode = 'shadow'",
        &["line 5: plugins.10-guard.mode puts the plugin in shadow mode, so plugins.guard.required has no effect"],
    );
    refused(
        "version = 3\n[plugins.'io.containerd.nri.v1.nri']\nplugins.a.required = true\nplugin_defaults.mode = 'shadow'",
        &[
            r#"line 4: plugins."io.containerd.nri.v1.nri".plugin_defaults.mode puts the plugin in shadow mode, so plugins."io.containerd.nri.v1.nri".plugins.a.required has no effect"#,
        ],
    );
}

#[test]
fn what_is_said_in_one_table_or_taken_back_by_name_is_meant() {
    for text in [
        "[plugins.guard]\nrequired = true\nmode = 'shadow'",
        "[plugin_defaults]\nmode = 'shadow'\n[plugins.guard]\nrequired = true\nmode = 'enforce'",
        "[plugins.guard]\nrequired = true\n[plugins.10-guard]\nrequired = false\nmode = 'shadow'",
        "[plugins.guard]\nrequired = true\n[plugins.10-other]\nmode = 'shadow'",
        "[plugins.judge]\nvalidator = true\nallow.events = ['all']\n[plugin_defaults]\nallow.events = []",
    ] {
        assert!(Config::from_toml(text).is_ok(), "{text}");
    }
}

#[test]
fn a_validator_may_see_what_it_is_to_validate() {
    refused(
        "[plugins.judge]\nvalidator = true\nallow.events = ['CreateContainer']",
        &[
            "line 3: plugins.judge.allow hides ValidateContainerAdjustment from the plugin, so plugins.judge.validator cannot be satisfied",
        ],
    );
    refused(
        "[plugins.judge]\nvalidator = true\n[plugins.10-judge]\nallow = { events = [] }",
        &[
            "line 4: plugins.10-judge.allow hides ValidateContainerAdjustment from the plugin, so plugins.judge.validator cannot be satisfied",
        ],
    );
}

#[test]
fn who_may_speak_under_a_name_is_read_or_refused() {
    let users = r#"a list of user ids with at least one, or "any""#;
    refused("[plugins.a]\nuids = []", &[&format!("line 2: plugins.a.uids is [], but must be {users}")]);
    refused("[plugins.a]\nuids = 'root'", &[&format!(r#"line 2: plugins.a.uids is "root", but must be {users}"#)]);
    refused("[plugins.a]\nallowed_uids = [0]", &["line 2: unknown key plugins.a.allowed_uids, did you mean uids?"]);
    refused("uids = [0]", &["line 1: unknown key uids, did you mean plugin_defaults.uids?"]);
    refused(
        "[plugins.a]\norigin = 'built_in'",
        &[r#"line 2: plugins.a.origin is "built_in", but must be "any" or "launched" or "connected" or "built-in""#],
    );
    refused("unnamed = 'deny'", &[r#"line 1: unnamed is "deny", but must be "admit" or "refuse""#]);
    refused("unamed = 'refuse'", &["line 1: unknown key unamed, did you mean unnamed?"]);
    assert_eq!(
        Config::from_toml("unnamed = 'admit'\nplugin_defaults.uids = 'any'").unwrap().policies.unnamed,
        Unnamed::Admit
    );
}

#[test]
fn users_of_a_plugin_that_nobody_connects_as_are_refused_in_one_table_and_meant_in_two() {
    for origin in ["launched", "built-in"] {
        refused(
            &format!("[plugins.guard]\nuids = [0]\norigin = '{origin}'"),
            &[
                "line 3: plugins.guard.origin lets no process connect as the plugin, so plugins.guard.uids has no effect",
            ],
        );
    }
    for text in [
        "[plugins.guard]\nuids = [0]\norigin = 'connected'",
        "[plugins.guard]\nuids = 'any'\norigin = 'launched'",
        "[plugin_defaults]\nuids = [0]\n[plugins.guard]\norigin = 'launched'",
        "[plugins.guard]\nuids = [0]\n[plugins.10-guard]\norigin = 'launched'",
    ] {
        assert!(Config::from_toml(text).is_ok(), "{text}");
    }
}

#[test]
fn a_user_who_may_be_a_plugin_may_connect() {
    for (table, key) in [("plugins.guard", "plugins.guard.uids"), ("plugin_defaults", "plugin_defaults.uids")] {
        refused(
            &format!("allowed_uids = [0]\n[{table}]\nuids = [0, 991]"),
            &[&format!("line 3: {key} names user 991, who may not connect: add 991 to allowed_uids")],
        );
        assert!(Config::from_toml(&format!("allowed_uids = [0, 991]\n[{table}]\nuids = [991]")).is_ok());
    }
}
