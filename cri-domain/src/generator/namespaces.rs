use nri_proto::{Change, ChangeList, Field, Namespace};
use oci_spec::runtime::LinuxNamespaceType;
use serde_json::Value;

use super::document::{self, Object, new_object};
use super::{SpecError, check};

const PATH: [&str; 2] = ["linux", "namespaces"];

/// Adjusts namespaces. A namespace that is set keeps its position. Afterwards each kind that the
/// adjustment names occurs at most once.
pub(super) fn adjust(spec: &mut Object, changes: &ChangeList<Namespace>) -> Result<(), SpecError> {
    for (kind, change) in changes.iter() {
        let checked = check::field(Field::Namespace, kind);
        checked.known::<LinuxNamespaceType>(kind, "the kind of namespace is unknown")?;
        if let Some(Namespace { kind: _, path, unknown: _ }) = change.value().copied().filter(|it| !it.path.is_empty())
        {
            checked.path(path)?;
        }
        let is_kind = |namespace: &Value| document::text(namespace, "type") == Some(kind);
        match change {
            Change::Remove => {
                if let Some(namespaces) = document::find_list(spec, &PATH)? {
                    namespaces.retain(|namespace| !is_kind(namespace));
                }
            }
            Change::Replace(namespace) => {
                let namespaces = document::list(spec, &PATH)?;
                namespaces.retain(|namespace| !is_kind(namespace));
                namespaces.push(entry(namespace));
            }
            Change::Set(namespace) => {
                let namespaces = document::list(spec, &PATH)?;
                match namespaces.iter().position(is_kind) {
                    Some(place) => {
                        namespaces[place] = entry(namespace);
                        let mut at = 0;
                        namespaces.retain(|namespace| {
                            at += 1;
                            at <= place + 1 || !is_kind(namespace)
                        });
                    }
                    None => namespaces.push(entry(namespace)),
                }
            }
        }
    }
    Ok(())
}

fn entry(namespace: &Namespace) -> Value {
    new_object([("type", namespace.kind.as_str().into()), ("path", namespace.path.as_str().into())])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{check_linux, check_linux_refused};
    use super::*;

    fn at(kind: &str, path: &str) -> Namespace {
        Namespace { kind: kind.to_owned(), path: path.to_owned(), ..Namespace::default() }
    }

    #[test]
    fn a_namespace_changes_in_its_place() {
        check_linux(
            json!({"linux": {"namespaces": [{"type": "pid"}, {"type": "network", "path": "/old"}, {"type": "ipc"}]}}),
            |it| {
                it.namespaces.set(at("network", "/new")).unwrap();
                it.namespaces.remove("pid");
                it.namespaces.set(at("time", "")).unwrap();
            },
            json!({"linux": {"namespaces": [{"type": "network", "path": "/new"}, {"type": "ipc"}, {"type": "time"}]}}),
        );
    }

    #[test]
    fn there_is_one_of_each_kind_that_is_set() {
        check_linux(
            json!({"linux": {"namespaces": [{"type": "pid"}, {"type": "uts"}, {"type": "pid", "path": "/p"}]}}),
            |it| it.namespaces.set(at("pid", "/n")).unwrap(),
            json!({"linux": {"namespaces": [{"type": "pid", "path": "/n"}, {"type": "uts"}]}}),
        );
    }

    #[test]
    fn all_eight_kinds_are_known_and_no_others() {
        for kind in ["pid", "network", "mount", "ipc", "uts", "user", "cgroup", "time"] {
            let expected = json!({"linux": {"namespaces": [{"type": kind}]}});
            check_linux(json!({}), |it| it.namespaces.set(at(kind, "")).unwrap(), expected);
        }
        let expected = r#"Namespace "net": the kind of namespace is unknown"#;
        check_linux_refused(|it| it.namespaces.set(at("net", "")).unwrap(), expected);
        check_linux_refused(|it| it.namespaces.remove("net"), expected);
        let expected = r#"Namespace "pid": the path is not absolute"#;
        check_linux_refused(|it| it.namespaces.set(at("pid", "proc/1/ns/pid")).unwrap(), expected);
    }
}
