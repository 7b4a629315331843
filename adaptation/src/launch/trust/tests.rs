use std::error::Error as _;
use std::fs::{self, Permissions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::FileId;
use super::UntrustedPath;
use super::check;
use super::is_partial;

/// The id of a user who is not trusted.
const STRANGER: u32 = 12345;

/// A directory with the file `a/b/file`, to which nobody else may write.
struct Tree(TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for dir in ["a", "a/b"] {
            fs::create_dir(tree.path(dir)).unwrap();
            tree.set_mode(dir, 0o755);
        }
        fs::write(tree.path("a/b/file"), "").unwrap();
        tree.set_mode("a/b/file", 0o755);
        tree
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).unwrap();
    }

    #[track_caller]
    fn check(&self, name: &str, expected: &str) {
        let dir = self.0.path().display().to_string();
        let outcome = match check(&self.path(name)) {
            Ok(_) => "trusted".to_owned(),
            Err(error) => match error.source() {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            },
        };
        assert_eq!(outcome.replace(&dir, "."), expected, "{name}");
    }
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: only root can give files away");
    }
    is_root
}

#[test]
fn a_path_is_trusted_if_nobody_else_can_write_to_any_part_of_it() {
    let tree = Tree::new();
    tree.check("a/b/file", "trusted");
    tree.check("a/b", "trusted");
    tree.check("a/../a/./b/file", "trusted");
    for name in ["a", "a/b", "a/b/file"] {
        for mode in [0o775, 0o757, 0o2775] {
            tree.set_mode(name, mode);
            let expected =
                format!("./{name} is writable by its group or by others (mode {mode:04o}): take that permission away");
            tree.check("a/b/file", &expected);
        }
        tree.set_mode(name, 0o755);
    }
    tree.check("a/b/file", "trusted");
}

/// The kernel follows such a link to the file that was opened, whatever path the text of the link
/// names.
#[test]
fn a_link_that_leads_elsewhere_than_its_text_says_is_not_trusted() {
    let tree = Tree::new();
    let file = fs::File::open(tree.path("a/b/file")).unwrap();
    fs::remove_file(tree.path("a/b/file")).unwrap();
    fs::write(tree.path("a/b/file (deleted)"), "").unwrap();
    tree.set_mode("a/b/file (deleted)", 0o755);
    tree.check("a/b/file (deleted)", "trusted");
    let link = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    assert_eq!(fs::read_link(&link).unwrap(), tree.path("a/b/file (deleted)"));
    let error = check(&link).unwrap_err();
    assert_eq!(error.source().unwrap().to_string(), "its links lead elsewhere than their texts say");
}

#[test]
fn a_path_is_trusted_if_all_of_it_belongs_to_root_or_the_runtime() {
    if !is_root() {
        return;
    }
    let tree = Tree::new();
    for name in ["a", "a/b", "a/b/file"] {
        chown(tree.path(name), Some(STRANGER), None).unwrap();
        let expected = format!(
            "./{name} belongs to user 12345 (mode 0755): give it to root or to user 0, as whom the runtime runs"
        );
        tree.check("a/b/file", &expected);
        chown(tree.path(name), Some(0), None).unwrap();
    }
    tree.check("a/b/file", "trusted");
}

#[test]
fn a_sticky_directory_may_be_on_the_way_to_what_is_trusted_and_not_at_the_end() {
    let tree = Tree::new();
    for mode in [0o1777, 0o1775] {
        tree.set_mode("a/b", mode);
        tree.check("a/b/file", "trusted");
        let expected =
            format!("./a/b is writable by its group or by others (mode {mode:04o}): take that permission away");
        tree.check("a/b", &expected);
    }
    // The file in the directory must not be writable by others, sticky or not.
    tree.set_mode("a/b/file", 0o1777);
    tree.check("a/b/file", "./a/b/file is writable by its group or by others (mode 1777): take that permission away");
    if !is_root() {
        return;
    }
    // The owner of a sticky directory may replace its entries, and the owner of an entry may
    // replace that entry.
    tree.set_mode("a/b/file", 0o755);
    for name in ["a/b", "a/b/file"] {
        chown(tree.path(name), Some(STRANGER), None).unwrap();
        assert!(matches!(check(&tree.path("a/b/file")), Err(UntrustedPath::Owner { uid: STRANGER, .. })), "{name}");
        chown(tree.path(name), Some(0), None).unwrap();
    }
}

#[test]
fn each_link_on_the_way_counts_with_the_directories_around_it() {
    let tree = Tree::new();
    // Through two links and two more directories: shelf/second -> ../case/first -> /…/a/b/file.
    for dir in ["case", "shelf"] {
        fs::create_dir(tree.path(dir)).unwrap();
        tree.set_mode(dir, 0o755);
    }
    symlink(tree.path("a/b/file"), tree.path("case/first")).unwrap();
    symlink("../case/first", tree.path("shelf/second")).unwrap();
    symlink("a", tree.path("linked")).unwrap();
    tree.check("shelf/second", "trusted");
    tree.check("linked/b/file", "trusted");
    for name in ["shelf", "case", "a", "a/b", "a/b/file"] {
        tree.set_mode(name, 0o775);
        let expected = format!("./{name} is writable by its group or by others (mode 0775): take that permission away");
        tree.check("shelf/second", &expected);
        tree.set_mode(name, 0o755);
    }
    if is_root() {
        for name in ["shelf/second", "case/first"] {
            lchown(tree.path(name), Some(STRANGER), None).unwrap();
            let expected = format!(
                "./{name} belongs to user 12345 (mode 0777): give it to root or to user 0, as whom the runtime runs"
            );
            tree.check("shelf/second", &expected);
            lchown(tree.path(name), Some(0), None).unwrap();
        }
    }
    tree.check("shelf/second", "trusted");
}

#[test]
fn what_is_checked_is_what_the_path_leads_to() {
    let tree = Tree::new();
    symlink("a/b/file", tree.path("link")).unwrap();
    let metadata = fs::metadata(tree.path("link")).unwrap();
    assert_eq!(check(&tree.path("link")).unwrap(), FileId(metadata.dev(), metadata.ino()));
}

#[test]
fn a_path_that_leads_nowhere_is_not_trusted() {
    let tree = Tree::new();
    symlink("loop", tree.path("loop")).unwrap();
    symlink("none", tree.path("broken")).unwrap();
    tree.check("none", "could not find out who can change ./none: No such file or directory (os error 2)");
    tree.check("broken", "could not find out who can change ./none: No such file or directory (os error 2)");
    tree.check("a/b/file/x", "could not find out who can change ./a/b/file/x: Not a directory (os error 20)");
    tree.check("loop", "could not find out who can change ./loop: Too many levels of symbolic links (os error 40)");
    check(Path::new("")).unwrap_err();
}

#[test]
fn users_are_outside_where_the_map_of_a_namespace_leaves_some_out() {
    assert!(!is_partial("         0          0 4294967295\n"), "the machine's own namespace");
    assert!(is_partial("         0       1000          1\n         1     100000      65536\n"));
    assert!(is_partial("         0       1000          1\n"));
    assert!(!is_partial(""), "nothing is known");
}
