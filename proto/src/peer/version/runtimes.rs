//! The versions of NRI in the releases of containerd and CRI-O.

use super::Version;
use crate::text::quote::quoted;

/// The reason why a runtime's version of NRI cannot be inferred.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InferVersionError {
    /// The name is not that of a known runtime.
    #[error("can't infer version for unknown runtime {}", quoted(.0))]
    UnknownRuntime(String),
    /// The runtime's version is invalid, or older than NRI.
    #[error("failed to find latest version for {}", quoted(.0))]
    NoMatch(String),
}

/// Returns the version of NRI in a release of a runtime, by the name and version of the runtime.
///
/// ```
/// use nri_proto::version;
///
/// assert_eq!(version::of_runtime("containerd", "v1.7.20")?, "v0.6.1");
/// assert!(version::of_runtime("containerd", "v1.6.36").is_err());
/// # Ok::<(), version::InferVersionError>(())
/// ```
pub fn of_runtime(runtime: &str, version: &str) -> Result<&'static str, InferVersionError> {
    let releases = match runtime {
        "containerd" => CONTAINERD,
        "cri-o" => CRI_O,
        _ => return Err(InferVersionError::UnknownRuntime(runtime.to_owned())),
    };
    let wanted = described(version);
    let latest = releases.iter().rfind(|(release, _)| release.parse::<Version>().ok() <= wanted);
    latest.map(|(_, nri)| *nri).ok_or_else(|| InferVersionError::NoMatch(version.to_owned()))
}

/// Parses a runtime's version and removes a git suffix.
///
/// As upstream, a git suffix with build metadata after it is not recognized: such a version sorts
/// before the release.
fn described(text: &str) -> Option<Version> {
    let version = text.parse::<Version>().ok()?;
    Some(if text.contains('+') { version } else { version.without_git_suffix() })
}

type Releases = &'static [(&'static str, &'static str)];

/// The releases with which the version of NRI in containerd changed, and the new version.
const CONTAINERD: Releases = &[
    ("v1.7.0", "v0.3.0"),
    ("v1.7.7", "v0.4.0"),
    ("v1.7.14", "v0.6.0"),
    ("v1.7.16", "v0.6.1"),
    ("v1.7.26", "v0.8.0"),
    ("v2.2.0", "v0.10.0"),
    ("v2.2.1", "v0.11.0"),
];

/// The releases with which the version of NRI in CRI-O changed, and the new version.
///
/// Release branches overlap: 1.26.4 is newer than 1.27.0.
const CRI_O: Releases = &[
    ("v1.26.0", "v0.2.0"),
    ("v1.26.2", "v0.3.0"),
    ("v1.26.4", "v0.3.1-0.20230504231226-94185418e253"),
    ("v1.27.0", "v0.3.0"),
    ("v1.27.1", "v0.3.1-0.20230504231226-94185418e253"),
    ("v1.29.0", "v0.5.0"),
    ("v1.29.2", "v0.6.0"),
    ("v1.31.0", "v0.6.1"),
    ("v1.32.0", "v0.9.0"),
    ("v1.33.0", "v0.9.1-0.20250219030224-e597e7849f24"),
    ("v1.34.0", "v0.10.0"),
    ("v1.35.0", "v0.11.0"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_of_versions_and_sorted() {
        for releases in [CONTAINERD, CRI_O] {
            let versions: Vec<Version> = releases.iter().map(|(release, _)| release.parse().unwrap()).collect();
            assert!(versions.is_sorted());
            assert!(releases.iter().all(|(_, nri)| nri.parse::<Version>().is_ok()));
        }
    }

    #[test]
    fn a_runtime_has_the_nri_of_its_latest_known_release() {
        check("containerd", "v1.7.0", "v0.3.0");
        check("containerd", "v1.7.13", "v0.4.0");
        check("containerd", "v1.7.99", "v0.8.0");
        check("containerd", "v2.1.6", "v0.8.0");
        check("containerd", "v2.2", "v0.10.0");
        check("containerd", "v9", "v0.11.0");
        check("cri-o", "v1.26.5", "v0.3.1-0.20230504231226-94185418e253");
        check("cri-o", "v1.27.0", "v0.3.0");
        check("cri-o", "v1.28.7", "v0.3.1-0.20230504231226-94185418e253");
        check("cri-o", "v1.33.1", "v0.9.1-0.20250219030224-e597e7849f24");
        check("cri-o", "v1.35.2", "v0.11.0");
    }

    #[test]
    fn a_release_candidate_counts_as_the_release_before() {
        check("containerd", "v2.2.0-rc.1", "v0.8.0");
        check("containerd", "v2.2.0+build", "v0.10.0");
    }

    #[test]
    fn what_was_built_after_a_release_counts_as_that_release() {
        check("containerd", "v2.2.0-225-ge9dc15b7a.m", "v0.10.0");
        check("containerd", "v2.2.0-225-ge9dc15b7a.m+build", "v0.8.0");
    }

    #[test]
    fn what_cannot_be_told_is_an_error() {
        check_error("dockerd", "v1.7.0", r#"can't infer version for unknown runtime "dockerd""#);
        check_error("v2", "v2.0.0", r#"can't infer version for unknown runtime "v2""#);
        check_error("containerd", "v1.6.36", r#"failed to find latest version for "v1.6.36""#);
        check_error("containerd", "1.7.20", r#"failed to find latest version for "1.7.20""#);
        check_error("cri-o", "", r#"failed to find latest version for """#);
    }

    #[track_caller]
    fn check(runtime: &str, version: &str, expected: &str) {
        assert_eq!(of_runtime(runtime, version).unwrap(), expected);
    }

    #[track_caller]
    fn check_error(runtime: &str, version: &str, expected: &str) {
        assert_eq!(of_runtime(runtime, version).unwrap_err().to_string(), expected);
    }
}
