use super::*;
use crate::Config;

fn connected(uid: u32) -> Identity {
    Identity::connected(Some(uid))
}

/// Checks that a policy refuses a peer with this error; `None` if the peer may be the plugin.
#[track_caller]
fn check(policy: &str, plugin: &str, identity: Identity, expected: Option<&str>) {
    let policies = Config::from_toml(&format!("allowed_uids = [0, 991, 1000]\n{policy}")).unwrap().policies;
    let refused = policies.check_identity(&id(plugin), identity).err().map(|refused| refused.to_string());
    assert_eq!(refused.as_deref(), expected, "{plugin} of {identity} by {policy}");
}

#[test]
fn by_default_anyone_may_speak_under_any_name() {
    for identity in [connected(1000), Identity::connected(None), Identity::LAUNCHED, Identity::BUILT_IN] {
        check("", "10-guard", identity, None);
        check("[plugins.guard]\nrequired = true", "10-guard", identity, None);
    }
}

#[test]
fn a_name_is_bound_to_users() {
    let policy = "[plugins.guard]\nuids = [0, 991]\n[plugins.20-guard]\nuids = 'any'";
    check(policy, "10-guard", connected(991), None);
    check(policy, "10-guard", connected(1000), Some("user 1000 is not among plugins.guard.uids, [0 991]"));
    check(policy, "20-guard", connected(1000), None);
    check(policy, "10-other", connected(1000), None);
    let unknown = "its user, who is not known, is not among plugins.guard.uids, [0 991]";
    check(policy, "10-guard", Identity::connected(None), Some(unknown));
    let defaults = "[plugin_defaults]\nuids = [0]\n[plugins.10-guard]\nuids = [991]";
    check(defaults, "10-guard", connected(0), Some("user 0 is not among plugins.10-guard.uids, [991]"));
    check(defaults, "10-other", connected(991), Some("user 991 is not among plugin_defaults.uids, [0]"));
}

#[test]
fn users_are_asked_of_those_that_connect_alone() {
    for identity in [Identity::LAUNCHED, Identity::BUILT_IN] {
        check("[plugins.guard]\nuids = [991]", "10-guard", identity, None);
    }
}

#[test]
fn a_name_is_bound_to_the_way_in_which_the_plugin_comes() {
    let ways = [("launched", Identity::LAUNCHED), ("connected", connected(0)), ("built-in", Identity::BUILT_IN)];
    for (allowed, _) in ways {
        for (way, identity) in ways {
            let refused = format!("it is {}, and plugins.guard.origin is {allowed:?}", identity.origin);
            let expected = (way != allowed).then_some(&*refused);
            check(&format!("[plugins.guard]\norigin = '{allowed}'"), "10-guard", identity, expected);
        }
    }
    let policy = "[plugin_defaults]\norigin = 'launched'\n[plugins.guard]\norigin = 'any'";
    check(policy, "10-guard", connected(0), None);
    let refused = "it is connected to the runtime, and plugin_defaults.origin is \"launched\"";
    check(policy, "10-other", connected(0), Some(refused));
}

#[test]
fn a_plugin_without_a_table_is_refused_if_the_operator_says_so() {
    let policy = "unnamed = 'refuse'\n[plugins.guard]\n[plugins.10-logger]\nallow.changes = []";
    for identity in [connected(0), Identity::LAUNCHED, Identity::BUILT_IN] {
        check(policy, "77-guard", identity, None);
        check(policy, "10-logger", identity, None);
        let refused = "unnamed = \"refuse\" lets in only plugins that have a table, such as [plugins.logger]";
        check(policy, "11-logger", identity, Some(refused));
    }
    let refused = "unnamed = \"refuse\" lets in only plugins that have a table, such as [plugins.\"a.b\"]";
    check("unnamed = 'refuse'", "10-a.b", connected(0), Some(refused));
}
