//! Versions and their order.

use proptest::prelude::*;

use super::*;

#[test]
fn our_own_version_is_a_version() {
    check(NRI, "v0.12.5");
    assert!(is_known(NRI));
}

#[test]
fn some_words_tell_nothing() {
    for word in ["", "(devel)", "0.0.0-unknown"] {
        assert!(!is_known(word), "{word}");
    }
}

#[test]
fn short_forms_are_filled_up() {
    check("v1", "v1.0.0");
    check("v1.2", "v1.2.0");
    check("v1.2.3", "v1.2.3");
}

#[test]
fn build_metadata_is_dropped() {
    check("v1.2.3+meta", "v1.2.3");
    check("v1.2.3-rc.1+meta.01", "v1.2.3-rc.1");
    check("v1.2.3+a-b", "v1.2.3");
}

#[test]
fn everything_else_is_no_version() {
    let texts = "|v|1.2.3|V1.2.3|v1.|v1.2.3.4|v01.2.3|v1.2.x|v-1|v+1|v1.2.3-|v1.2.3+|v1-rc|v1.2-rc|\
                 v1+m|v1.2+m|v1.2.3-a..b|v1.2.3-01|v1.2.3+a+b|v1.2.3-é| v1|v1.2.3\n";
    for text in texts.split('|') {
        assert_eq!(text.parse::<Version>(), Err(ParseVersionError(text.to_owned())));
    }
    let error = "1.2".parse::<Version>().unwrap_err();
    assert_eq!(error.to_string(), r#"invalid version "1.2""#);
}

#[test]
fn versions_are_ordered_as_semver_says() {
    let sorted = "v0.9.0 v0.10.0 v1.0.0-1 v1.0.0-2 v1.0.0-10 v1.0.0-10.1 v1.0.0-alpha v1.0.0-alpha.1 v1.0.0-alpha.b \
         v1.0.0-alpha- v1.0.0-beta v1 v1.0.1 v1.1 v2 v99999999999999999999.0.0 v100000000000000000000";
    let versions: Vec<Version> = sorted.split_whitespace().map(|text| text.parse().unwrap()).collect();
    assert!(versions.is_sorted_by(|a, b| a < b), "{sorted:?}");
}

#[test]
fn different_texts_may_be_one_version() {
    let version = |text: &str| text.parse::<Version>().unwrap();
    assert_eq!(version("v1"), version("v1.0.0"));
    assert_eq!(version("v1.2.3"), version("v1.2.3+build"));
}

#[test]
fn a_git_suffix_can_be_removed() {
    check_git("v0.11.0-37-g41b9c58", "v0.11.0");
    check_git("v2.2.0-225-ge9dc15b7a.m", "v2.2.0");
    check_git("v1.2.3-18446744073709551615-gffffffffffffffff", "v1.2.3");
}

#[test]
fn what_only_looks_like_a_git_suffix_stays() {
    let texts = "v1.2.3 v1.2.3-rc.1 v1.2.3-45 v1.2.3-45-g v1.2.3-45-gz v1.2.3-45-abc v1.2.3-45-g.m v1.2.3-rc-gabc \
         v1.2.3-1-2-gabc v1.2.3-1.2-gabc v1.2.3--gabc v1.2.3-18446744073709551616-gabc \
         v1.2.3-1-g10000000000000000";
    for text in texts.split_whitespace() {
        check_git(text, text);
    }
}

proptest! {
    #[test]
    fn reading_never_panics(text in "\\PC*", near in "v?[0-9.+a-g-]*", runtime in "containerd|cri-o|\\PC*") {
        let _ = text.parse::<Version>();
        let _ = near.parse::<Version>().map(Version::without_git_suffix);
        let _ = of_runtime(&runtime, &near);
    }

    #[test]
    fn what_is_printed_can_be_read(text in version()) {
        let version: Version = text.parse().unwrap();
        prop_assert_eq!(version.to_string().parse(), Ok(version));
    }
}

fn version() -> impl Strategy<Value = String> {
    let number = "0|[1-9][0-9]{0,25}";
    let stage = "(-[a-z-][0-9a-z-]{0,5}([.][a-z-][0-9a-z-]{0,5}){0,2})?";
    let build = "([+][0-9a-z-]{1,5})?";
    (number, number, number, stage, build)
        .prop_map(|(major, minor, patch, stage, build)| format!("v{major}.{minor}.{patch}{stage}{build}"))
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(text.parse::<Version>().unwrap().to_string(), expected);
}

#[track_caller]
fn check_git(text: &str, expected: &str) {
    assert_eq!(text.parse::<Version>().unwrap().without_git_suffix().to_string(), expected);
}
