use std::error::Error as _;
use std::fs;

use super::{MAX_CONFIG, read};

#[test]
fn the_configuration_with_the_index_comes_first_then_the_one_without() {
    let dir = tempfile::tempdir().unwrap();
    let config = || read(dir.path(), &"10-logger".parse().unwrap()).unwrap();
    assert_eq!(config(), "");
    fs::write(dir.path().join("other.conf"), "other").unwrap();
    assert_eq!(config(), "");
    fs::write(dir.path().join("logger.conf"), "by name\n").unwrap();
    assert_eq!(config(), "by name\n");
    fs::write(dir.path().join("10-logger.conf"), "").unwrap();
    assert_eq!(config(), "", "an empty one is one, too");
    fs::write(dir.path().join("10-logger.conf"), "by index").unwrap();
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
    fs::write(&path, b"\xff").unwrap();
    assert!(error().source().unwrap().to_string().contains("UTF-8"));
    fs::File::create(&path).unwrap().set_len(MAX_CONFIG + 1).unwrap();
    assert_eq!(error().to_string(), format!("configuration {} is larger than {MAX_CONFIG} bytes", path.display()));
}
