use std::fs;
use std::path::Path;

/// Returns whether this machine has a cgroup controller for huge pages, in either version of
/// cgroups.
pub fn has_hugetlb() -> bool {
    has_hugetlb_in(Path::new("/sys/fs/cgroup"))
}

fn has_hugetlb_in(cgroups: &Path) -> bool {
    let controllers = fs::read_to_string(cgroups.join("cgroup.controllers")).unwrap_or_default();
    cgroups.join("hugetlb").is_dir() || controllers.split_whitespace().any(|controller| controller == "hugetlb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controller_is_found_in_both_versions_of_cgroups() {
        let root = tempfile::tempdir().unwrap();
        assert!(!has_hugetlb_in(root.path()));
        fs::write(root.path().join("cgroup.controllers"), "cpu hugetlbx io\n").unwrap();
        assert!(!has_hugetlb_in(root.path()));
        fs::write(root.path().join("cgroup.controllers"), "cpu hugetlb io\n").unwrap();
        assert!(has_hugetlb_in(root.path()));

        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("hugetlb")).unwrap();
        assert!(has_hugetlb_in(root.path()));
    }
}
