use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

/// How changes below a mount propagate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// In and out.
    Shared,
    /// In only.
    Slave,
    /// Not at all.
    Private,
}

impl Propagation {
    /// Returns what the options of a mount call it; nothing is what a private one has.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shared => "rshared",
            Self::Slave => "rslave",
            Self::Private => "",
        }
    }
}

/// Returns how changes propagate from the mount that `path` lies on, in our mount namespace.
pub fn mount_propagation(path: &Path) -> io::Result<Propagation> {
    let mounts = fs::read("/proc/self/mountinfo")?;
    let quoted = nri_proto::quote::quoted;
    let missing = || io::Error::other(format!("failed to get mount info for {}", quoted(&path.to_string_lossy())));
    find(&mounts, &cleaned(path)).ok_or_else(missing)
}

/// The mount with the longest path; of several at one place the last, which lies on top.
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

/// The optional fields end with a dash.
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

/// The kernel writes a blank as `\040`.
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

/// Without `..`, which is taken off as written.
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
