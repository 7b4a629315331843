use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::ProgramChange;
use super::Stamps;
use super::changes;
use super::stamps;
use crate::launch::directory::look;

/// Lists the directory and applies the changes. Returns them as text.
fn look_again(dir: &Path, running: &mut Stamps, before: &mut Stamps) -> Vec<String> {
    let now = look(dir, 64).unwrap();
    let changes = changes(running, before, &now);
    *before = stamps(&now);
    let mut done = |change| match change {
        ProgramChange::Launch(found) => {
            running.insert(found.id.clone(), found.stamp);
            format!("launch {}", found.id)
        }
        ProgramChange::Remove(id) => {
            running.remove(&id);
            format!("remove {id}")
        }
    };
    changes.into_iter().map(&mut done).collect()
}

fn put(dir: &Path, name: &str, text: &str) {
    fs::write(dir.join(".new"), text).unwrap();
    fs::set_permissions(dir.join(".new"), Permissions::from_mode(0o755)).unwrap();
    fs::rename(dir.join(".new"), dir.join(name)).unwrap();
}

#[test]
fn what_two_looks_show_is_so() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (mut running, mut before) = (Stamps::new(), Stamps::new());
    let mut look = || look_again(dir, &mut running, &mut before);
    assert_eq!(look(), [""; 0]);

    put(dir, "10-a", "1");
    assert_eq!(look(), [""; 0], "it may still be growing");
    put(dir, "10-a", "12");
    assert_eq!(look(), [""; 0], "it was");
    assert_eq!(look(), ["launch 10-a"]);
    assert_eq!(look(), [""; 0]);

    put(dir, "10-a", "123");
    put(dir, "20-b", "1");
    assert_eq!(look(), [""; 0]);
    assert_eq!(look(), ["launch 10-a", "launch 20-b"]);

    fs::remove_file(dir.join("10-a")).unwrap();
    assert_eq!(look(), [""; 0], "it may be about to be replaced");
    put(dir, "10-a", "1234");
    assert_eq!(look(), [""; 0]);
    assert_eq!(look(), ["launch 10-a"]);

    fs::remove_file(dir.join("10-a")).unwrap();
    fs::set_permissions(dir.join("20-b"), Permissions::from_mode(0o644)).unwrap();
    assert_eq!(look(), [""; 0]);
    assert_eq!(look(), ["remove 10-a", "remove 20-b"]);
    assert_eq!(look(), [""; 0]);
}

#[test]
fn a_program_that_others_can_change_is_not_launched_and_ends_none_that_runs() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (mut running, mut before) = (Stamps::new(), Stamps::new());
    let mut look = || look_again(dir, &mut running, &mut before);
    put(dir, "10-a", "1");
    look();
    assert_eq!(look(), ["launch 10-a"]);
    // A user who may write to the program can change what it does.
    let set_mode = |mode| fs::set_permissions(dir.join("10-a"), Permissions::from_mode(mode)).unwrap();
    set_mode(0o775);
    fs::write(dir.join("10-a"), "evil").unwrap();
    for _ in 0..3 {
        assert_eq!(look(), [""; 0]);
    }
    // An operator who takes that permission away vouches for the contents of the file.
    set_mode(0o755);
    assert_eq!(look(), ["launch 10-a"]);
    set_mode(0o775);
    look();
    fs::remove_file(dir.join("10-a")).unwrap();
    assert_eq!(look(), [""; 0], "it may be about to be replaced");
    assert_eq!(look(), ["remove 10-a"]);
}
