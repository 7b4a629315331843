//! Checks that only trusted users can change what a path leads to.
//!
//! The runtime executes plugins as its own user, so a program is only as trustworthy as every
//! directory and symbolic link on the way to it. A path is trusted if each of them, and the file at
//! its end, is owned by root or by the runtime's own user and is not writable by its group or by
//! others. A POSIX ACL that lets another user write shows as write permission of the group.
//!
//! A sticky directory such as `/tmp` may be on the way: the kernel lets only the owner of an entry,
//! the owner of the directory and root rename or remove an entry there, and each of these is
//! checked. Sticky directories cannot be at the end of a path, because anybody may add an entry.
//!
//! Once a path is trusted, only root and the runtime's own user can make it lead elsewhere. The
//! check does not cover what a program itself opens: the interpreter of a script, shared libraries,
//! its own files.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::error::UntrustedPath;

/// The number of symbolic links that the kernel follows in one path.
const MAX_LINKS: u32 = 40;

/// How many times a path is checked if its file is replaced during the check.
const ATTEMPTS: usize = 3;

/// The file at the end of a trusted path: its device and its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId(pub(super) u64, pub(super) u64);

/// Checks that only root and the runtime's own user can change what `path` leads to.
///
/// Each component is opened relative to the directory that was checked before it, so nothing can be
/// exchanged between two steps. At the end the file must be the one to which the kernel follows the
/// path: a link such as `/proc/1/root` leads elsewhere than its text says.
pub(super) fn check(path: &Path) -> Result<FileId, UntrustedPath> {
    for _ in 0..ATTEMPTS {
        let checked = walk(path)?;
        let metadata = fs::metadata(path);
        let metadata = metadata.map_err(|source| UntrustedPath::Inspect { path: path.to_owned(), source })?;
        if checked == FileId(metadata.dev(), metadata.ino()) {
            return Ok(checked);
        }
    }
    let source = io::Error::other("its links lead elsewhere than their texts say");
    Err(UntrustedPath::Inspect { path: path.to_owned(), source })
}

fn walk(path: &Path) -> Result<FileId, UntrustedPath> {
    let absolute =
        std::path::absolute(path).map_err(|source| UntrustedPath::Inspect { path: path.to_owned(), source })?;
    let mut walk = Walk::begin()?;
    walk.push(&absolute);
    while let Some(name) = walk.pending.pop_front() {
        walk.step(&name)?;
    }
    walk.finish()
}

/// Checks a path that may not exist. Returns whether it exists. If it does not, the existing part
/// of the path is trusted, so nobody else can have removed the rest.
pub(super) fn check_if_there(path: &Path) -> Result<bool, UntrustedPath> {
    match check(path) {
        Err(UntrustedPath::Inspect { path: _, source }) if source.kind() == io::ErrorKind::NotFound => Ok(false),
        checked => checked.map(|_| true),
    }
}

/// A walk along a path, one component at a time.
struct Walk {
    owners: Owners,
    root: OwnedFd,
    /// The directory that the walk has reached, or the file when no component is pending.
    here: OwnedFd,
    stat: Stat,
    /// The path of `here`, without symbolic links.
    path: PathBuf,
    pending: VecDeque<OsString>,
    n_links: u32,
}

impl Walk {
    fn begin() -> Result<Self, UntrustedPath> {
        let path = PathBuf::from("/");
        let root = open(CWD, path.as_os_str()).and_then(|root| Ok((rustix::fs::fstat(&root)?, root)));
        let (stat, root) = root.map_err(|errno| inspect(&path, errno))?;
        let here = root.try_clone().map_err(|source| UntrustedPath::Inspect { path: path.clone(), source })?;
        let owners = Owners::of_this_process(stat.st_uid);
        owners.check(&path, &stat)?;
        Ok(Self { owners, root, here, stat, path, pending: VecDeque::new(), n_links: 0 })
    }

    /// Inserts the components of a path before the pending ones.
    fn push(&mut self, path: &Path) {
        for component in path.components().rev() {
            match component {
                Component::Normal(name) => self.pending.push_front(name.to_owned()),
                Component::ParentDir => self.pending.push_front("..".into()),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
    }

    fn step(&mut self, name: &OsStr) -> Result<(), UntrustedPath> {
        // This directory is not at the end of the path, so it may be sticky.
        if mode_of(&self.stat) & 0o1000 == 0 {
            check_mode(&self.path, &self.stat)?;
        }
        let path = if name == ".." { parent_of(&self.path) } else { self.path.join(name) };
        let opened = open(&self.here, name).and_then(|next| Ok((rustix::fs::fstat(&next)?, next)));
        let (stat, next) = opened.map_err(|errno| inspect(&path, errno))?;
        self.owners.check(&path, &stat)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            return self.follow(&path, &next);
        }
        (self.here, self.stat, self.path) = (next, stat, path);
        Ok(())
    }

    fn follow(&mut self, path: &Path, link: &OwnedFd) -> Result<(), UntrustedPath> {
        self.n_links += 1;
        if self.n_links > MAX_LINKS {
            return Err(inspect(path, Errno::LOOP));
        }
        let target = rustix::fs::readlinkat(link, "", Vec::new()).map_err(|errno| inspect(path, errno))?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            self.here =
                self.root.try_clone().map_err(|source| UntrustedPath::Inspect { path: path.to_owned(), source })?;
            self.stat = rustix::fs::fstat(&self.here).map_err(|errno| inspect(path, errno))?;
            self.path = PathBuf::from("/");
        }
        self.push(&target);
        Ok(())
    }

    fn finish(self) -> Result<FileId, UntrustedPath> {
        check_mode(&self.path, &self.stat)?;
        Ok(FileId(self.stat.st_dev, self.stat.st_ino))
    }
}

/// The users whose files are trusted.
#[derive(Clone, Copy, Debug)]
struct Owners {
    own: u32,
    /// The owner of `/`, if this process is in a user namespace that does not map that owner.
    outside: Option<u32>,
}

impl Owners {
    fn of_this_process(owner_of_root: u32) -> Self {
        let own = rustix::process::geteuid().as_raw();
        let is_known = owner_of_root == 0 || owner_of_root == own;
        Self { own, outside: if is_known { None } else { outside(owner_of_root) } }
    }

    fn check(self, path: &Path, stat: &Stat) -> Result<(), UntrustedPath> {
        let uid = stat.st_uid;
        if uid == 0 || uid == self.own || Some(uid) == self.outside {
            return Ok(());
        }
        Err(UntrustedPath::Owner { path: path.to_owned(), uid, mode: mode_of(stat), own: self.own })
    }
}

/// Returns the owner of `/` if that user is outside this process's user namespace.
///
/// A runtime without root privileges sees the files of the machine's root as those of the overflow
/// user. The same is true of all other users outside the namespace, so they cannot be told apart
/// there.
fn outside(owner_of_root: u32) -> Option<u32> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let overflow = read("/proc/sys/kernel/overflowuid").trim().parse().ok();
    let is_outside = overflow == Some(owner_of_root) && is_partial(&read("/proc/self/uid_map"));
    is_outside.then_some(owner_of_root)
}

/// Returns whether a user map leaves out some users. The map of the initial user namespace has them
/// all.
fn is_partial(map: &str) -> bool {
    let counts = map.lines().filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok());
    let n_mapped: u64 = counts.sum();
    n_mapped > 0 && n_mapped < u64::from(u32::MAX)
}

fn open(dir: impl rustix::fd::AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

fn check_mode(path: &Path, stat: &Stat) -> Result<(), UntrustedPath> {
    let mode = mode_of(stat);
    if mode & 0o022 == 0 {
        return Ok(());
    }
    Err(UntrustedPath::Writable { path: path.to_owned(), mode })
}

fn mode_of(stat: &Stat) -> u32 {
    stat.st_mode & 0o7777
}

fn parent_of(path: &Path) -> PathBuf {
    path.parent().unwrap_or(path).to_owned()
}

fn inspect(path: &Path, errno: Errno) -> UntrustedPath {
    UntrustedPath::Inspect { path: path.to_owned(), source: io::Error::from(errno) }
}

#[cfg(test)]
mod tests;
