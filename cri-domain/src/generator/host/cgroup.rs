use std::path::Path;

/// Checks that the cgroup of a container lies below that of its pod. Use this function as
/// [`Host::cgroup`](super::Host::cgroup).
///
/// `path` is a path, or `slice:prefix:name` with systemd; the slice must then be that of the pod,
/// or below it. If `parent` is empty, the pod's cgroup is unknown, and the check fails. Every path
/// is below `/`.
///
/// ```
/// use cri_domain::generator::{Host, host};
///
/// let parent = "/kubepods/pod1".to_owned();
/// let check = move |path: &str| Ok(host::check_cgroup_parent(&parent, path)?);
/// let host = Host { cgroup: Some(Box::new(check)), ..Host::of_this_machine() };
/// let is_allowed = host.cgroup.unwrap();
/// assert!(is_allowed("/kubepods/pod1/app").is_ok());
/// assert!(is_allowed("/kubepods/pod2/app").is_err());
/// ```
pub fn check_cgroup_parent(parent: &str, path: &str) -> Result<(), CgroupOutsideParent> {
    let is_below = match path.split_once(':') {
        _ if parent.is_empty() => false,
        Some((slice, _)) => is_slice_below(parent, slice),
        None => is_path_below(parent, path),
    };
    if is_below { Ok(()) } else { Err(CgroupOutsideParent { parent: parent.to_owned() }) }
}

/// Error for a cgroup of a container that is not below that of its pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cgroup is not below that of the pod, {}", if parent.is_empty() { "which is unknown" } else { parent })]
pub struct CgroupOutsideParent {
    /// The cgroup of the pod; empty if it is unknown.
    pub parent: String,
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !matches!(*part, "" | "."))
}

fn is_path_below(parent: &str, path: &str) -> bool {
    let mut path = parts(path);
    parts(parent).all(|part| path.next() == Some(part))
        && path.next().is_some_and(|part| part != "..")
        && path.all(|part| part != "..")
}

/// Returns whether a slice is the parent slice or below it. systemd names slices by their parents:
/// `a-b.slice` is below `a.slice`.
fn is_slice_below(parent: &str, slice: &str) -> bool {
    let Some(parent) = parts(parent).last().and_then(|name| name.strip_suffix(".slice")) else { return false };
    let Some(slice) = slice.strip_suffix(".slice") else { return false };
    slice == parent || slice.strip_prefix(parent).is_some_and(|rest| rest.starts_with('-'))
}

/// Returns whether this machine has only cgroups of version 2.
pub fn is_cgroup_v2() -> bool {
    Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d10_a_container_stays_below_the_cgroup_of_its_pod() {
        for (parent, path) in [
            ("/kubepods/pod1", "/kubepods/pod1/app"),
            ("/kubepods/pod1/", "//kubepods/./pod1/a/b"),
            ("kubepods/pod1", "/kubepods/pod1/app"),
            ("/kubepods.slice/kubepods-pod1.slice", "kubepods-pod1.slice:cri:app"),
            ("kubepods-pod1.slice", "kubepods-pod1-extra.slice:cri:app"),
        ] {
            assert_eq!(check_cgroup_parent(parent, path), Ok(()), "{path}");
        }
        for path in [
            "/kubepods/pod1",
            "/kubepods/pod10/app",
            "/kubepods/pod2/app",
            "/kubepods/pod1/../pod2/app",
            "/kubepods/pod1/..",
            "/",
            "",
            "app",
            "kubepods-pod1.slice:cri:app",
        ] {
            assert!(check_cgroup_parent("/kubepods/pod1", path).is_err(), "{path}");
        }
        assert_eq!(check_cgroup_parent("/", "/app"), Ok(()));
        let error = check_cgroup_parent("", "/app").unwrap_err();
        assert_eq!(error.to_string(), "the cgroup is not below that of the pod, which is unknown");
        for path in ["kubepods-pod10.slice:cri:app", "system.slice:cri:app", ":cri:app", "/kubepods-pod1.slice/app"] {
            assert!(check_cgroup_parent("/kubepods.slice/kubepods-pod1.slice", path).is_err(), "{path}");
        }
    }
}
