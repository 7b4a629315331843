use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags, fstat, fstatfs, open};

/// The type of the file system that holds namespaces, as in the result of `statfs`.
const NSFS_MAGIC: i64 = 0x6e73_6673;

/// A namespace of a container, as the spec names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceRef<'s> {
    /// The kind of namespace, such as `network`.
    pub kind: &'s str,
    /// The path of an existing namespace; empty for a new one.
    pub path: &'s str,
}

/// Returns whether a namespace is that of this process or that of the machine's first process.
///
/// # Errors
///
/// Fails if a namespace cannot be examined, or if the path is not that of a namespace.
pub fn is_host_namespace(namespace: NamespaceRef<'_>) -> io::Result<bool> {
    is_shared_with(&["self", "1"], namespace)
}

fn is_shared_with(processes: &[&str], namespace: NamespaceRef<'_>) -> io::Result<bool> {
    if namespace.path.is_empty() {
        return Ok(false);
    }
    let file = match namespace.kind {
        "network" => "net",
        "mount" => "mnt",
        kind => kind,
    };
    let joined = id(Path::new(namespace.path))?;
    for process in processes {
        if id(&Path::new("/proc").join(process).join("ns").join(file))? == joined {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the device and inode that identify a namespace.
fn id(path: &Path) -> io::Result<(u64, u64)> {
    let unknown =
        |error: io::Error| io::Error::new(error.kind(), format!("could not examine {}: {error}", path.display()));
    examine(path).map_err(unknown)
}

fn examine(path: &Path) -> io::Result<(u64, u64)> {
    let file = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    #[allow(clippy::useless_conversion, reason = "it is of another type on other machines")]
    if i64::from(fstatfs(&file)?.f_type) != NSFS_MAGIC {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a namespace"));
    }
    let found = fstat(&file)?;
    Ok((found.st_dev, found.st_ino))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn check(kind: &str, path: &Path) -> io::Result<bool> {
        is_host_namespace(NamespaceRef { kind, path: path.to_str().unwrap() })
    }

    #[test]
    fn d09_a_namespace_is_the_hosts_whatever_its_path() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("net");
        symlink("/proc/self/ns/net", &link).unwrap();
        for path in ["/proc/self/ns/net", "//proc/./thread-self/ns/net", link.to_str().unwrap()] {
            assert!(check("network", Path::new(path)).unwrap(), "{path}");
        }
        // Only root may examine the first process.
        assert!(check("network", Path::new("/proc/1/ns/net")).is_ok_and(|is_hosts| is_hosts) || !may_look());
        assert!(!check("network", Path::new("")).unwrap());
    }

    #[test]
    fn another_namespace_is_not_the_hosts() {
        // The kernel would refuse to join a network there, but the path is a namespace other than
        // the host's network.
        let other = NamespaceRef { kind: "network", path: "/proc/self/ns/ipc" };
        assert!(!is_shared_with(&["self"], other).unwrap());
        assert_eq!(is_host_namespace(other).ok(), may_look().then_some(false));
    }

    #[test]
    fn d09_what_cannot_be_examined_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("net");
        std::fs::write(&file, "").unwrap();
        let missing = directory.path().join("nothing");
        for path in [file.as_path(), missing.as_path(), Path::new("/proc/self/nothing"), Path::new("/")] {
            assert!(check("network", path).is_err(), "{}", path.display());
        }
        assert!(check("no such kind", Path::new("/proc/self/ns/net")).is_err());
        let error = check("network", &missing).unwrap_err().to_string();
        assert!(error.starts_with(&format!("could not examine {}: ", missing.display())), "{error}");
    }

    fn may_look() -> bool {
        id(Path::new("/proc/1/ns/net")).is_ok()
    }
}
