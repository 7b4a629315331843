use nri_proto::{Change, ChangeMap, Field};

use super::document::Object;
use super::host::{Filtered, Host, InNamespace};
use super::{SpecError, check, document};

const PATH: [&str; 2] = ["linux", "sysctl"];

/// Namespaces have been adjusted before.
pub(super) fn adjust(spec: &mut Object, changes: &ChangeMap<String>, host: &Host) -> Result<(), SpecError> {
    for (key, change) in changes.iter() {
        check_name(key)?;
        // Go plugins read values from `/proc/sys`, where each is a line.
        let change = change.map(|value| value.trim_ascii());
        if let Some(value) = change.value() {
            let is_line = !value.contains(['\0', '\n', '\r']);
            check::of(Field::Sysctl, key).holds(is_line, "the value is more than one line")?;
        }
        let filtered = match &host.sysctl {
            Some(filter) => filter(key, change, &namespaces(spec)?),
            None => Ok(Filtered::Kept),
        };
        match (filtered.map_err(|error| SpecError::host(Field::Sysctl, key, error))?, change) {
            (Filtered::Dropped, _) => {}
            (Filtered::Kept, Change::Set(value) | Change::Replace(value)) => {
                document::object(spec, &PATH)?.insert(key.to_owned(), value.into());
            }
            (Filtered::Kept, Change::Remove) => document::unset(spec, &PATH, key)?,
        }
    }
    Ok(())
}

/// A name becomes a path below `/proc/sys`, and must not lead out of it.
fn check_name(name: &str) -> Result<(), SpecError> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "_-./:@".contains(c);
    let is_name = name.chars().all(is_letter) && name.split(['.', '/']).all(|part| !part.is_empty());
    check::of(Field::Sysctl, name).holds(is_name, "this is not the name of a kernel parameter")
}

/// The namespaces that the spec names. Those that it does not name are the host's.
fn namespaces(spec: &mut Object) -> Result<Vec<InNamespace<'_>>, SpecError> {
    let found = document::find_list(spec, &["linux", "namespaces"])?;
    let named = |namespace| {
        let path = document::text(namespace, "path").unwrap_or_default();
        Some(InNamespace { kind: document::text(namespace, "type")?, path })
    };
    Ok(found.map(|found| found.iter().filter_map(named).collect()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use nri_proto::{Adjustment, LinuxAdjustment, Namespace};
    use serde_json::json;

    use super::super::adjust;
    use super::super::host::refuse_the_hosts;
    use super::super::testing::{check_linux, check_linux_refused};
    use super::*;

    #[test]
    fn kernel_parameters_are_set_without_the_white_space_around_them_and_removed() {
        check_linux(
            json!({"linux": {"sysctl": {"net.a": "1", "net.b": "1"}}}),
            |linux| {
                linux.sysctl.remove("net.a");
                linux.sysctl.set("net.c", " 32768 60999\n").unwrap();
            },
            json!({"linux": {"sysctl": {"net.b": "1", "net.c": "32768 60999"}}}),
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
    fn a_filter_knows_the_namespaces_that_the_adjustment_leads_to() {
        let host = Host { sysctl: Some(Box::new(refuse_the_hosts)), ..Host::default() };
        let mut linux = LinuxAdjustment::default();
        linux.sysctl.set("net.ipv4.ip_forward", "1").unwrap();
        let mut adjustment = Adjustment { linux: Some(linux), ..Adjustment::default() };
        adjust(&mut json!({}), &adjustment, &host).unwrap_err();

        let own = Namespace { kind: "network".to_owned(), ..Namespace::default() };
        adjustment.linux.as_mut().unwrap().namespaces.set(own).unwrap();
        adjust(&mut json!({}), &adjustment, &host).unwrap();
    }
}
