use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

/// The propagation of mounts below a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Mounts propagate in both directions.
    Shared,
    /// Mounts propagate from the host into the container.
    Slave,
    /// Mounts do not propagate.
    Private,
}

impl Propagation {
    /// Returns the mount option for this propagation; empty for a private mount.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shared => "rshared",
            Self::Slave => "rslave",
            Self::Private => "",
        }
    }
}

/// Returns the propagation of the mount that has `path`, in the mount namespace of this process.
pub fn mount_propagation(path: &Path) -> io::Result<Propagation> {
    let mounts = fs::read("/proc/self/mountinfo")?;
    let quoted = nri_proto::quote::quoted;
    let missing = || io::Error::other(format!("failed to get mount info for {}", quoted(&path.to_string_lossy())));
    find(&mounts, &cleaned(path)).ok_or_else(missing)
}

/// Returns the propagation of the mount with the longest matching path. If several mounts have the
/// same path, the last one lies on top.
fn find(mountinfo: &[u8], path: &Path) -> Option<Propagation> {
    let mut found: Option<(PathBuf, Propagation)> = None;
    for line in mountinfo.split(|byte| *byte == b'\n') {
        let mut fields = line.split(|byte| *byte == b' ').skip(4);
        let Some(point) = fields.next().map(unescaped) else { continue };
        if path.starts_with(&point)
            && found.as_ref().is_none_or(|(best, _)| best.as_os_str().len() <= point.as_os_str().len())
        {
            found = Some((point, propagation(fields.skip(1))));
        }
    }
    found.map(|(_, propagation)| propagation)
}

/// Reads the propagation from the optional fields of a line, which end with a dash.
fn propagation<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Propagation {
    for field in fields.take_while(|field| *field != b"-") {
        if field.starts_with(b"shared:") {
            return Propagation::Shared;
        }
        if field.starts_with(b"master:") {
            return Propagation::Slave;
        }
    }
    Propagation::Private
}

/// Decodes a path. The kernel encodes a space as `\040`.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = vec![];
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let octal = (byte == b'\\').then(|| after.get(..3)).flatten();
        let code = octal.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(code.unwrap_or(byte));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    OsStr::from_bytes(&bytes).into()
}

/// Removes `..` lexically, without following links.
fn cleaned(path: &Path) -> PathBuf {
    let mut cleaned = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => _ = cleaned.pop(),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => cleaned.push(component),
        }
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &[u8] = b"\
21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
22 21 0:5 / /proc rw,relatime - proc proc rw
23 21 0:6 / /var/lib rw master:1 - ext4 /dev/vda rw
24 21 0:7 / /mnt/a\\040b rw shared:9 master:1 - ext4 /dev/vda rw
25 21 0:8 / /var/lib rw - tmpfs tmpfs rw
";

    #[track_caller]
    fn check(path: &str, expected: Propagation) {
        assert_eq!(find(MOUNTS, &cleaned(Path::new(path))), Some(expected));
    }

    #[test]
    fn the_nearest_mount_decides() {
        check("/etc", Propagation::Shared);
        check("/", Propagation::Shared);
        check("/proc/self", Propagation::Private);
        check("/procs", Propagation::Shared);
        check("/proc/../etc", Propagation::Shared);
    }

    #[test]
    fn a_mount_on_top_of_another_decides() {
        check("/var/lib/kubelet", Propagation::Private);
    }

    #[test]
    fn a_mount_that_gives_and_takes_is_shared() {
        check("/mnt/a b/c", Propagation::Shared);
    }

    #[test]
    fn this_machine_says_something_about_its_root() {
        mount_propagation(Path::new("/")).unwrap();
        assert!(mount_propagation(Path::new("relative")).is_err());
    }
}
