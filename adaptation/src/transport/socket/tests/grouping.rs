use super::*;

/// A group that we may give our files to.
fn group() -> u32 {
    if rustix::process::geteuid().is_root() { 61_010 } else { rustix::process::getegid().as_raw() }
}

fn gid(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().gid()
}

#[tokio::test]
async fn a_group_reaches_the_socket_and_changes_nothing_around_it() {
    let (directory, _) = place();
    let path = directory.path().join("a/b/nri.sock");
    let (before, _socket) = (mode(directory.path()), Socket::bind_for_group(&path, group()).unwrap());
    assert_eq!((mode(&path), gid(&path)), (0o660, group()));
    for dir in ["a", "a/b"].map(|dir| directory.path().join(dir)) {
        assert_eq!((mode(&dir), gid(&dir)), (0o750, group()), "{}", dir.display());
    }
    assert_eq!(mode(directory.path()), before, "its parent was there");
}

/// Runtimes are restarted, with another setting too.
#[tokio::test]
async fn each_start_gives_socket_and_directory_to_the_group_that_is_set_then() {
    let (directory, _) = place();
    let path = directory.path().join("nri/nri.sock");
    let dir = path.parent().unwrap();
    drop(Socket::bind(&path).unwrap());
    assert_eq!(mode(dir), 0o700);
    for _ in 0..2 {
        let _socket = Socket::bind_for_group(&path, group()).unwrap();
        assert_eq!((mode(dir), gid(dir), mode(&path), gid(&path)), (0o750, group(), 0o660, group()));
    }
    let _socket = Socket::bind(&path).unwrap();
    assert_eq!(mode(&path), 0o600, "without a group nobody else reaches it");
}

/// The directory may be the home of root.
#[tokio::test]
async fn a_directory_with_other_files_stays_closed_to_the_group() {
    for permissions in [0o700, 0o750] {
        let (directory, path) = place();
        fs::set_permissions(&directory, fs::Permissions::from_mode(permissions)).unwrap();
        fs::write(directory.path().join("secret"), "").unwrap();
        let before = gid(directory.path());
        let _socket = Socket::bind_for_group(&path, group()).unwrap();
        assert_eq!((mode(directory.path()), gid(directory.path())), (permissions, before));
    }
}

#[tokio::test]
async fn a_directory_with_permissions_of_its_own_keeps_them_whatever_group_has_the_socket() {
    for permissions in [0o711, 0o755, 0o1777] {
        let (directory, path) = place();
        fs::set_permissions(&directory, fs::Permissions::from_mode(permissions)).unwrap();
        let before = gid(directory.path());
        let _socket = Socket::bind_for_group(&path, group()).unwrap();
        assert_eq!((mode(directory.path()), gid(directory.path())), (permissions, before));
        assert_eq!((mode(&path), gid(&path)), (0o660, group()));
    }
}

#[tokio::test]
async fn a_group_that_the_runtime_may_not_give_files_to_is_named_and_leaves_no_socket() {
    let (directory, path) = place();
    if rustix::process::geteuid().is_root() {
        eprintln!("skipped: root may give files to any group");
        return;
    }
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    let error = Socket::bind_for_group(&path, 0).unwrap_err().to_string();
    assert_eq!(error, format!("could not give {} to group 0 (socket_gid)", path.display()));
    assert!(!path.exists());
}
