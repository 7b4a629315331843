use nri_proto::{Change, ChangeList, ChangeMap, Field, Namespace};

use super::document::Object;
use super::host::{AllowlistError, FilterDecision, Host, NamespaceRef, check_sysctl, namespace_of};
use super::{SpecError, check, document};

const PATH: [&str; 2] = ["linux", "sysctl"];

/// Adjusts kernel parameters. Namespaces must be adjusted before.
pub(super) fn adjust(spec: &mut Object, changes: &ChangeMap<String>, host: &Host) -> Result<(), SpecError> {
    for (key, change) in changes.iter() {
        check_name(key)?;
        // Go plugins pass values that they read from `/proc/sys`, which end with a newline.
        let change = change.map(|value| value.trim_ascii());
        if let Some(value) = change.value() {
            let is_line = !value.contains(['\0', '\n', '\r']);
            check::field(Field::Sysctl, key).require(is_line, "the value is more than one line")?;
        }
        let namespaces = namespaces(spec)?;
        let filtered = match &host.sysctl {
            Some(filter) => filter(key, change, &namespaces),
            None => Ok(FilterDecision::Kept),
        };
        let refused = |error| SpecError::host(Field::Sysctl, key, error);
        if filtered.map_err(refused)? == FilterDecision::Dropped {
            continue;
        }
        check_sysctl(key, change, &namespaces, host).map_err(|error| refused(error.into()))?;
        match change {
            Change::Set(value) | Change::Replace(value) => {
                document::object(spec, &PATH)?.insert(key.to_owned(), value.into());
            }
            Change::Remove => document::unset(spec, &PATH, key)?,
        }
    }
    Ok(())
}

/// Refuses to move a container into a namespace of the host if the spec sets kernel parameters of
/// that namespace. Otherwise the runtime would set them for the host.
pub(super) fn check_moved(spec: &mut Object, moved: &ChangeList<Namespace>, host: &Host) -> Result<(), SpecError> {
    if moved.is_empty() {
        return Ok(());
    }
    let set = document::find_object(spec, &PATH)?;
    let set: Vec<String> = set.map(|set| set.keys().cloned().collect()).unwrap_or_default();
    let namespaces = namespaces(spec)?;
    for (kind, _) in moved.iter() {
        for sysctl in set.iter().filter(|sysctl| namespace_of(sysctl) == Some(kind)) {
            check_sysctl(sysctl, Change::Set(""), &namespaces, host).map_err(|error| {
                let error = AllowlistError::Moved { sysctl: sysctl.clone(), source: Box::new(error) };
                SpecError::host(Field::Namespace, kind, error.into())
            })?;
        }
    }
    Ok(())
}

/// Requires a name that is a path below `/proc/sys`.
fn check_name(name: &str) -> Result<(), SpecError> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "_-./:@".contains(c);
    let is_name = name.chars().all(is_letter) && name.split(['.', '/']).all(|part| !part.is_empty());
    check::field(Field::Sysctl, name).require(is_name, "this is not the name of a kernel parameter")
}

/// Returns the namespaces that the spec lists. The container shares all others with the host.
fn namespaces(spec: &mut Object) -> Result<Vec<NamespaceRef<'_>>, SpecError> {
    let found = document::find_list(spec, &["linux", "namespaces"])?;
    let named = |namespace| {
        let path = document::text(namespace, "path").unwrap_or_default();
        Some(NamespaceRef { kind: document::text(namespace, "type")?, path })
    };
    Ok(found.map(|found| found.iter().filter_map(named).collect()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use nri_proto::{Adjustment, LinuxAdjustment};
    use serde_json::{Value, json};

    use super::super::adjust;
    use super::super::host::Allowlist;
    use super::super::testing::{check_linux, check_linux_refused};
    use super::*;

    #[test]
    fn kernel_parameters_are_set_without_the_white_space_around_them_and_removed() {
        check_linux(
            json!({"linux": {"sysctl": {"net.a": "1", "net.b": "1"}, "namespaces": [{"type": "network"}]}}),
            |linux| {
                linux.sysctl.remove("net.a");
                linux.sysctl.set("net.c", " 32768 60999\n").unwrap();
            },
            json!({"linux": {
                "sysctl": {"net.b": "1", "net.c": "32768 60999"}, "namespaces": [{"type": "network"}],
            }}),
        );
    }

    #[test]
    fn d09_a_name_does_not_lead_elsewhere_and_a_value_is_one_line() {
        for name in ["a+b", "a=b", "../x", "a..b", "", "a b", "/a", "a\0"] {
            let expected = match name {
                "" => "Sysctl: this is not the name of a kernel parameter".to_owned(),
                name => {
                    let quoted = nri_proto::quote::quoted(name);
                    format!("Sysctl {quoted}: this is not the name of a kernel parameter")
                }
            };
            check_linux_refused(|linux| linux.sysctl.set(name, "1").unwrap(), &expected);
        }
        check_linux_refused(
            |linux| linux.sysctl.set("net.a", "1\nnet.b=1").unwrap(),
            r#"Sysctl "net.a": the value is more than one line"#,
        );
    }

    #[test]
    fn d09_a_plugin_sets_no_parameter_of_the_host_also_not_by_way_of_its_namespace() {
        let with_path = |path: &str| json!({"linux": {"namespaces": [{"type": "network", "path": path}]}});
        let check = |mut spec: Value, key: &str, joins: Option<&str>| {
            let mut linux = LinuxAdjustment::default();
            linux.sysctl.set(key, "1").unwrap();
            if let Some(path) = joins {
                let namespace = Namespace { kind: "network".to_owned(), path: path.to_owned(), ..Namespace::default() };
                linux.namespaces.replace(namespace).unwrap();
            }
            let adjustment = Adjustment { linux: Some(linux), ..Adjustment::default() };
            adjust(&mut spec, &adjustment, &Host::of_this_machine()).map_err(|error| {
                let source = std::error::Error::source(&error).unwrap().to_string();
                assert!(source.contains("Host::allow.sysctls"), "{source}");
                error.to_string()
            })
        };
        let refused = |key: &str| Err(format!("could not adjust Sysctl {key:?}"));
        let own = || with_path("");
        assert_eq!(check(own(), "kernel.core_pattern", None).map(drop), refused("kernel.core_pattern"));
        assert_eq!(check(json!({}), "net.a", None).map(drop), refused("net.a"));
        assert_eq!(check(own(), "net.a", None).map(drop), Ok(()));
        for path in ["/proc/1/ns/net", "/proc/self/ns/net", "/nothing/like/it", "/proc/self/status"] {
            assert_eq!(check(with_path(path), "net.a", None).map(drop), refused("net.a"), "{path}");
            assert_eq!(check(own(), "net.a", Some(path)).map(drop), refused("net.a"), "{path}");
        }
    }

    #[test]
    fn d09_a_plugin_does_not_turn_a_parameter_of_the_pod_into_one_of_the_host() {
        let before = json!({"linux": {
            "sysctl": {"net.ipv4.ip_forward": "1"}, "namespaces": [{"type": "network", "path": "/pod"}, {"type": "ipc"}],
        }});
        let check = |kind: &str, path: Option<&str>, allowed: &str| {
            let namespace =
                |path: &str| Namespace { kind: kind.to_owned(), path: path.to_owned(), ..Namespace::default() };
            let mut linux = LinuxAdjustment::default();
            match path {
                Some(path) => _ = linux.namespaces.replace(namespace(path)),
                None => linux.namespaces.remove(kind),
            }
            let adjustment = Adjustment { linux: Some(linux), ..Adjustment::default() };
            let host = Host {
                allow: Allowlist { sysctls: vec![allowed.to_owned()], ..Allowlist::default() },
                is_host_namespace: Some(Box::new(|namespace| Ok(namespace.path == "/host"))),
                ..Host::default()
            };
            adjust(&mut before.clone(), &adjustment, &host).map_err(|error| error.to_string())
        };
        for path in [Some("/host"), None] {
            let refused = check("network", path, "").unwrap_err();
            assert_eq!(refused, r#"could not adjust Namespace "network""#);
            assert!(check("network", path, "net.*").is_ok());
            assert!(check("ipc", path, "").is_ok(), "it has no parameters of that");
        }
        for path in ["/other", ""] {
            assert!(check("network", Some(path), "").is_ok());
        }
    }

    #[test]
    fn a_filter_knows_the_namespaces_that_the_adjustment_leads_to() {
        let filter = |_: &str, _: Change<&str>, namespaces: &[NamespaceRef<'_>]| match namespaces {
            [NamespaceRef { kind: "network", path: "" }] => Ok(FilterDecision::Kept),
            _ => Err("there is no network".into()),
        };
        let host = Host { sysctl: Some(Box::new(filter)), ..Host::default() };
        let mut linux = LinuxAdjustment::default();
        linux.sysctl.set("net.ipv4.ip_forward", "1").unwrap();
        let mut adjustment = Adjustment { linux: Some(linux), ..Adjustment::default() };
        adjust(&mut json!({}), &adjustment, &host).unwrap_err();

        let own = Namespace { kind: "network".to_owned(), ..Namespace::default() };
        adjustment.linux.as_mut().unwrap().namespaces.set(own).unwrap();
        adjust(&mut json!({}), &adjustment, &host).unwrap();
    }
}
