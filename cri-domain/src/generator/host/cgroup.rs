use std::path::Path;

/// Says whether the cgroup of a container lies below that of its pod: give it to [`Host::cgroup`](super::Host::cgroup).
///
/// Both may be paths, or the container's may be systemd's `slice:prefix:name`, whose slice is then the pod's, or one below. Nothing is
/// below a cgroup that is not known, an empty one; below `/` is everything.
///
/// ```
/// use cri_domain::generator::{Host, host};
///
/// let parent = "/kubepods/pod1".to_owned();
/// let host = Host { cgroup: Some(Box::new(move |path| Ok(host::check_cgroup_parent(&parent, path)?))), ..Host::of_this_machine() };
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

/// A container would be in a cgroup that is not its pod's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cgroup is not below the pod's, {}", if parent.is_empty() { "which is not known" } else { parent })]
pub struct CgroupOutsideParent {
    /// The pod's; empty if it is not known.
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

/// `a-b.slice` lies below `a.slice`: that is how systemd names them.
fn is_slice_below(parent: &str, slice: &str) -> bool {
    let Some(parent) = parts(parent).last().and_then(|name| name.strip_suffix(".slice")) else { return false };
    let Some(slice) = slice.strip_suffix(".slice") else { return false };
    slice == parent || slice.strip_prefix(parent).is_some_and(|rest| rest.starts_with('-'))
}

/// Says whether this machine has cgroups of version 2, and no others.
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
        assert_eq!(error.to_string(), "the cgroup is not below the pod's, which is not known");
        for path in ["kubepods-pod10.slice:cri:app", "system.slice:cri:app", ":cri:app", "/kubepods-pod1.slice/app"] {
            assert!(check_cgroup_parent("/kubepods.slice/kubepods-pod1.slice", path).is_err(), "{path}");
        }
    }
}
