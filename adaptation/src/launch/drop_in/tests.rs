use std::error::Error as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use super::MAX_CONFIG;
use super::read;

/// Writes a file that only its owner may change, whatever the umask.
fn put(path: &Path, text: impl AsRef<[u8]>) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
}

#[test]
fn the_configuration_with_the_index_comes_first_then_the_one_without() {
    let dir = tempfile::tempdir().unwrap();
    let config = || read(dir.path(), &"10-logger".parse().unwrap()).unwrap();
    assert_eq!(config(), "");
    put(&dir.path().join("other.conf"), "other");
    assert_eq!(config(), "");
    put(&dir.path().join("logger.conf"), "by name\n");
    assert_eq!(config(), "by name\n");
    put(&dir.path().join("10-logger.conf"), "");
    assert_eq!(config(), "", "an empty one is one, too");
    put(&dir.path().join("10-logger.conf"), "by index");
    assert_eq!(config(), "by index");
}

#[test]
fn a_configuration_that_cannot_be_read_is_named_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("10-logger.conf");
    let error = || read(dir.path(), &"10-logger".parse().unwrap()).unwrap_err();
    fs::create_dir(&path).unwrap();
    assert_eq!(error().to_string(), format!("could not read configuration {}", path.display()));
    assert!(error().source().is_some());
    fs::remove_dir(&path).unwrap();
    put(&path, b"\xff");
    assert!(error().source().unwrap().to_string().contains("UTF-8"));
    fs::File::create(&path).unwrap().set_len(MAX_CONFIG + 1).unwrap();
    assert_eq!(error().to_string(), format!("configuration {} is larger than {MAX_CONFIG} bytes", path.display()));
}

#[test]
fn a_configuration_that_others_can_change_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let conf_d = dir.path().join("conf.d");
    fs::create_dir(&conf_d).unwrap();
    let set_mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    set_mode(&conf_d, 0o755);
    let refused = || {
        let error = read(&conf_d, &"10-logger".parse().unwrap()).unwrap_err();
        format!("{error}: {}", error.source().unwrap())
    };
    let writable = |refused: &Path, path: &Path, mode: u32| {
        format!(
            "configuration {} can be changed by others: \
             {} is writable by its group or by others (mode {mode:04o}): take that permission away",
            refused.display(),
            path.display()
        )
    };
    let path = conf_d.join("10-logger.conf");
    put(&path, "a");
    set_mode(&path, 0o664);
    assert_eq!(refused(), writable(&path, &path, 0o664));

    // A symbolic link counts as the file that it leads to.
    fs::remove_file(&path).unwrap();
    let other = dir.path().join("other");
    put(&other, "a");
    symlink(&other, &path).unwrap();
    assert_eq!(read(&conf_d, &"10-logger".parse().unwrap()).unwrap(), "a");
    set_mode(&other, 0o646);
    assert_eq!(refused(), writable(&path, &other, 0o646));
    set_mode(&other, 0o644);

    // A user who may write to the directory may remove or add a configuration.
    fs::remove_file(&path).unwrap();
    for mode in [0o775, 0o1777] {
        set_mode(&conf_d, mode);
        assert_eq!(refused(), writable(&conf_d, &conf_d, mode));
    }
}

#[test]
fn a_configuration_of_somebody_else_is_not_used() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: a_configuration_of_somebody_else_is_not_used: only root can give a file away");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("logger.conf");
    put(&path, "a");
    std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
    let error = read(dir.path(), &"10-logger".parse().unwrap()).unwrap_err();
    let source = error.source().unwrap().to_string();
    assert!(source.starts_with(&format!("{} belongs to user 12345 (mode 0644): ", path.display())), "{source}");
}

#[test]
fn a_configuration_that_is_a_fifo_holds_up_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let path = dir.path().join("logger.conf");
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert_eq!(read(dir.path(), &"10-logger".parse().unwrap()).unwrap(), "");
}

#[test]
fn a_configuration_that_others_could_have_taken_away_is_not_taken_for_absent() {
    let dir = tempfile::tempdir().unwrap();
    let (conf_d, elsewhere) = (dir.path().join("way/conf.d"), dir.path().join("elsewhere"));
    let set_mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let config = || read(&conf_d, &"10-logger".parse().unwrap());
    let refusal = || config().unwrap_err().source().unwrap().to_string();
    for path in [&dir.path().join("way"), &elsewhere] {
        fs::create_dir(path).unwrap();
        set_mode(path, 0o755);
    }
    assert_eq!(config().unwrap(), "");
    set_mode(&dir.path().join("way"), 0o775);
    assert!(refusal().contains("way is writable by its group"), "{}", refusal());
    set_mode(&dir.path().join("way"), 0o755);

    fs::create_dir(&conf_d).unwrap();
    set_mode(&conf_d, 0o755);
    symlink(elsewhere.join("logger"), conf_d.join("logger.conf")).unwrap();
    assert_eq!(config().unwrap(), "");
    set_mode(&elsewhere, 0o775);
    assert!(refusal().contains("elsewhere is writable by its group"), "{}", refusal());
}
