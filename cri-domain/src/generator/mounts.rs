use std::collections::HashMap;
use std::path::Path;

use nri_proto::quote::quoted;
use nri_proto::{ChangeList, Field, Mount};
use serde_json::Value;

use super::document::{self, Object, new_object, text};
use super::host::{Host, Propagation};
use super::{SpecError, check};

const PATH: [&str; 1] = ["mounts"];

/// Adjusts mounts. If the adjustment changes any mount, all mounts are sorted so that parents come
/// before children. If several mounts have the same destination, the last one is used.
pub(super) fn adjust(spec: &mut Object, changes: &ChangeList<Mount>, host: &Host) -> Result<(), SpecError> {
    if changes.is_empty() {
        return Ok(());
    }
    let mut last: HashMap<&str, usize> = HashMap::new();
    for (at, (destination, change)) in changes.iter().enumerate() {
        if let Some(mount) = change.into_value() {
            check_mount(mount)?;
            propagate(spec, mount, host)?;
        }
        last.insert(destination, at);
    }
    if let Some(mounts) = document::find_list(spec, &PATH)? {
        mounts.retain(|mount| text(mount, "destination").is_none_or(|destination| !last.contains_key(destination)));
    }
    for (at, (destination, change)) in changes.iter().enumerate() {
        if let Some(mount) = change.into_value().filter(|_| last.get(destination) == Some(&at)) {
            document::list(spec, &PATH)?.push(entry(mount));
        }
    }
    if let Some(mounts) = document::find_list(spec, &PATH)? {
        mounts.sort_by_cached_key(|mount| {
            let destination = text(mount, "destination").unwrap_or_default();
            (depth(destination), destination.to_owned())
        });
    }
    Ok(())
}

fn entry(mount: &Mount) -> Value {
    let Mount { destination, kind, source, options, unknown: _ } = mount;
    new_object([
        ("destination", destination.as_str().into()),
        ("type", kind.as_str().into()),
        ("source", source.as_str().into()),
        ("options", options.as_slice().into()),
    ])
}

fn check_mount(mount: &Mount) -> Result<(), SpecError> {
    let Mount { destination, kind, source, options, unknown: _ } = mount;
    let checked = check::field(Field::Mounts, destination);
    checked.path(destination)?;
    checked.text(kind)?;
    checked.text(source)?;
    checked.texts(options)
}

/// Returns the number of slashes in a path after cleaning it as Go does.
fn depth(path: &str) -> usize {
    let is_absolute = path.starts_with('/');
    let mut parts: Vec<&str> = vec![];
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        match parts.last() {
            Some(&last) if part == ".." && last != ".." => _ = parts.pop(),
            None if part == ".." && is_absolute => {}
            Some(_) | None => parts.push(part),
        }
    }
    // The root has one slash, too.
    if is_absolute { parts.len().max(1) } else { parts.len().saturating_sub(1) }
}

/// Checks the propagation of a mount, and sets that of the container's root. Mounts reach the
/// container only if the source propagates them, and if the root of the container receives them.
fn propagate(spec: &mut Object, mount: &Mount, host: &Host) -> Result<(), SpecError> {
    let wanted = mount.options.iter().rev().find_map(|option| match option.as_str() {
        "rshared" => Some(Some(Propagation::Shared)),
        "rslave" => Some(Some(Propagation::Slave)),
        "rprivate" => Some(None),
        _ => None,
    });
    let Some(Some(wanted)) = wanted else { return Ok(()) };
    if let Some(propagation) = &host.propagation {
        let refused = |source| SpecError::host(Field::Mounts, &mount.destination, source);
        let found = propagation(Path::new(&mount.source)).map_err(refused)?;
        let suffices = found == Propagation::Shared || found == wanted;
        if !suffices {
            return Err(refused(Box::new(Unpropagated { path: mount.source.clone(), found, wanted })));
        }
    }
    let root = document::object(spec, &["linux"])?.entry("rootfsPropagation").or_insert(Value::Null);
    let suffices = wanted == Propagation::Slave && matches!(root.as_str(), Some("rshared" | "rslave"));
    if !suffices {
        *root = wanted.as_str().into();
    }
    Ok(())
}

/// Error for a mount whose source does not have the requested propagation.
#[derive(Debug, thiserror::Error)]
#[error("path {} mount propagation is {}, not {}", quoted(path), quoted(found.as_str()), quoted(accepted(*wanted)))]
struct Unpropagated {
    path: String,
    found: Propagation,
    wanted: Propagation,
}

fn accepted(wanted: Propagation) -> &'static str {
    match wanted {
        Propagation::Slave => "rshared or rslave",
        Propagation::Shared | Propagation::Private => wanted.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use nri_proto::Adjustment;
    use serde_json::json;

    use super::super::adjust;
    use super::super::testing::{check, check_refused};
    use super::*;

    fn at(destination: &str) -> Mount {
        Mount { destination: destination.to_owned(), ..Mount::default() }
    }

    fn bind(destination: &str, source: &str, options: &[&str]) -> Mount {
        let options = options.iter().map(|&option| option.to_owned()).collect();
        Mount { kind: "bind".to_owned(), source: source.to_owned(), options, ..at(destination) }
    }

    #[test]
    fn mounts_are_replaced_removed_and_sorted() {
        check(
            json!({"mounts": [{"destination": "/b/c"}, {"destination": "/a", "x": 1}, {"destination": "/b"}]}),
            |it| {
                it.mounts.remove("/b");
                it.mounts.set(bind("/b/c", "/s", &["ro"])).unwrap();
                it.mounts.set(at("/")).unwrap();
                it.mounts.set(at("/z")).unwrap();
            },
            json!({"mounts": [
                {"destination": "/"}, {"destination": "/a", "x": 1}, {"destination": "/z"},
                {"destination": "/b/c", "type": "bind", "source": "/s", "options": ["ro"]},
            ]}),
        );
    }

    #[test]
    fn mounts_at_one_place_keep_their_order() {
        check(
            json!({"mounts": [{"destination": "/x", "n": 1}, {"destination": "/x", "n": 2}, {"destination": "/x", "n": 0}]}),
            |it| it.mounts.remove("/y"),
            json!({"mounts": [{"destination": "/x", "n": 1}, {"destination": "/x", "n": 2}, {"destination": "/x", "n": 0}]}),
        );
    }

    #[test]
    fn a_destination_is_as_deep_as_go_says() {
        for (path, expected) in
            [("/", 1), ("/a", 1), ("//a/./b/", 2), ("/a/../..", 1), ("a", 0), ("a/b", 1), ("", 0), ("../a/..", 0)]
        {
            assert_eq!(depth(path), expected, "{path}");
        }
    }

    #[test]
    fn u18_a_destination_is_absolute_and_does_not_climb() {
        check_refused(|it| it.mounts.set(at("../../etc")).unwrap(), r#"Mounts "../../etc": the path is not absolute"#);
        check_refused(|it| it.mounts.set(at("/a/../etc")).unwrap(), r#"Mounts "/a/../etc": the path contains `..`"#);
        let source = bind("/a", "/s\0", &[]);
        check_refused(|it| it.mounts.set(source).unwrap(), r#"Mounts "/a": the text contains a NUL"#);
    }

    fn propagated(spec: Value, mounts: &[Mount]) -> Result<Value, String> {
        let propagation = |path: &Path| match path.to_str() {
            Some("/shared") => Ok(Propagation::Shared),
            Some("/slave") => Ok(Propagation::Slave),
            _ => Ok(Propagation::Private),
        };
        let host = Host { propagation: Some(Box::new(propagation)), ..Host::default() };
        let mut adjustment = Adjustment::default();
        mounts.iter().for_each(|mount| adjustment.mounts.set(mount.clone()).unwrap());
        let mut spec = spec;
        match adjust(&mut spec, &adjustment, &host) {
            Ok(_) => Ok(spec["linux"]["rootfsPropagation"].clone()),
            Err(error) => Err(std::error::Error::source(&error).unwrap().to_string()),
        }
    }

    #[test]
    fn what_is_to_propagate_reaches_the_root_and_comes_from_somewhere() {
        let shared = bind("/a", "/shared", &["rbind", "rshared"]);
        let slave = bind("/b", "/slave", &["rslave"]);
        assert_eq!(propagated(json!({}), std::slice::from_ref(&shared)).unwrap(), "rshared");
        assert_eq!(propagated(json!({}), std::slice::from_ref(&slave)).unwrap(), "rslave");
        assert_eq!(propagated(json!({}), &[shared, slave.clone()]).unwrap(), "rshared");
        let root = json!({"linux": {"rootfsPropagation": "private"}});
        assert_eq!(propagated(root, &[slave]).unwrap(), "rslave");
        let refused = propagated(json!({}), &[bind("/a", "/slave", &["rshared"])]).unwrap_err();
        assert_eq!(refused, r#"path "/slave" mount propagation is "rslave", not "rshared""#);
        let refused = propagated(json!({}), &[bind("/a", "/x", &["rslave"])]).unwrap_err();
        assert_eq!(refused, r#"path "/x" mount propagation is "", not "rshared or rslave""#);
    }

    #[test]
    fn the_propagation_of_one_mount_is_not_that_of_the_next() {
        let mounts = [bind("/a", "/shared", &["rshared"]), bind("/b", "/x", &["ro"])];
        assert_eq!(propagated(json!({}), &mounts).unwrap(), "rshared");
    }

    #[test]
    fn of_several_options_the_last_counts() {
        let private = bind("/a", "/x", &["rshared", "rprivate"]);
        assert_eq!(propagated(json!({}), &[private]).unwrap(), Value::Null);
    }
}
