use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use super::look;
use crate::launch::error::{LaunchError, Unfit, UntrustedPath};

fn put(dir: &Path, name: &str, mode: u32) {
    fs::write(dir.join(name), "#!/bin/sh\n").unwrap();
    fs::set_permissions(dir.join(name), Permissions::from_mode(mode)).unwrap();
}

/// Returns the ids of the programs that are found, and the reasons for the other entries.
fn seen(dir: &Path, limit: usize) -> (Vec<String>, Vec<String>) {
    let look = look(dir, limit).unwrap();
    let found = look.found.iter().map(|found| found.id.to_string()).collect();
    let unfit = look.unfit.iter().map(|(name, unfit)| {
        let cause = std::error::Error::source(unfit).map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("{}: {unfit}{cause}", name.display())
    });
    (found, unfit.collect())
}

#[test]
fn a40_u20_what_is_no_plugin_is_passed_over_and_keeps_no_other_from_being_found() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for name in ["20-b", "10-a", "10-a.b_c+d-e"] {
        put(dir, name, 0o755);
    }
    put(dir, "30-data", 0o644);
    fs::create_dir(dir.join("40-directory")).unwrap();
    symlink("20-b", dir.join("50-link")).unwrap();
    symlink("40-directory", dir.join("51-link-to-directory")).unwrap();
    for name in ["README.sh", "1-short", "ab-letters", "10-my plugin", "10-"] {
        put(dir, name, 0o755);
    }
    put(dir, "60-everyones", 0o777);
    symlink("nowhere", dir.join("70-broken")).unwrap();

    let everyones = dir.join("60-everyones").display().to_string();
    let (found, unfit) = seen(dir, 64);
    assert_eq!(found, ["10-a", "10-a.b_c+d-e", "20-b", "50-link"]);
    assert_eq!(
        unfit,
        [
            "1-short: its name is not that of a plugin: invalid plugin index \"1\", must be 2 digits",
            "10-: its name is not that of a plugin: invalid plugin name: name is empty",
            "10-my plugin: its name is not that of a plugin: invalid plugin name \"my plugin\": contains invalid character ' '",
            &format!(
                "60-everyones: it can be changed by others: {everyones} is writable by its group or by others (mode 0777): take that permission away"
            ),
            "70-broken: it could not be inspected: No such file or directory (os error 2)",
            "README.sh: its name is not that of a plugin: invalid plugin name \"README.sh\", idx-pluginname expected",
            "ab-letters: its name is not that of a plugin: invalid plugin index \"ab\" (not [0-9][0-9])",
        ]
    );
}

#[test]
fn no_more_plugins_are_found_than_there_may_be() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["10-a", "20-b", "30-c"] {
        put(dir.path(), name, 0o755);
    }
    assert_eq!(seen(dir.path(), 2).0, ["10-a", "20-b"]);
    assert!(matches!(look(dir.path(), 2).unwrap().unfit[..], [(_, Unfit::TooMany { limit: 2 })]));
}

#[test]
fn a_directory_that_is_not_there_has_no_plugins_and_one_that_others_can_change_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(seen(&dir.path().join("none"), 64).0, [""; 0]);
    for mode in [0o1777, 0o775] {
        fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
        let refused = look(dir.path(), 64);
        let Err(LaunchError::UntrustedDirectory { source: UntrustedPath::Writable { mode: told, .. }, .. }) = refused
        else {
            panic!("{refused:?}");
        };
        assert_eq!(told, mode);
    }
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(look(&file, 64), Err(LaunchError::ReadDirectory { .. })));
}

#[test]
fn a_directory_that_others_could_have_taken_away_does_not_count_as_empty() {
    let dir = tempfile::tempdir().unwrap();
    let plugins = dir.path().join("plugins");
    for mode in [0o775, 0o757] {
        fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
        let refused = look(&plugins, 64);
        assert!(matches!(refused, Err(LaunchError::UntrustedDirectory { .. })), "{refused:?}");
    }
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    assert!(look(&plugins, 64).unwrap().found.is_empty());
}

#[test]
fn a_program_that_was_replaced_has_another_stamp() {
    let dir = tempfile::tempdir().unwrap();
    let stamp = || look(dir.path(), 64).unwrap().found[0].stamp;
    put(dir.path(), "10-a", 0o755);
    let first = stamp();
    assert_eq!(stamp(), first);
    put(dir.path(), "new", 0o755);
    fs::rename(dir.path().join("new"), dir.path().join("10-a")).unwrap();
    assert_ne!(stamp(), first);
}
