//! The names in these tests are those of upstream's test cases.

use nri_proto::Pod;

use super::*;

const TOLERATE: &str = "tolerate-missing-plugins.noderesource.dev";
const REQUIRED: &str = "required-plugins.noderesource.dev";

/// Checks which plugins are missing, of those that the operator and the pod require.
#[track_caller]
fn check(global: &[&str], annotations: &[(&str, &str)], present: &[&str], expected: Option<&str>) {
    let validator = DefaultValidator {
        required_plugins: global.iter().map(|&name| name.to_owned()).collect(),
        tolerate_missing_plugins_annotation: TOLERATE.to_owned(),
        ..DefaultValidator::default()
    };
    let annotations = annotations.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    let proposal = Proposal {
        pod: Some(Pod { namespace: "kube-system".to_owned(), annotations, ..Pod::default() }),
        plugins: present.iter().map(|&plugin| (&id(plugin)).into()).collect(),
        ..proposal(container(), [])
    };
    assert_eq!(validator.validate(&proposal).rejection(), expected);
}

#[test]
fn no_required_plugins() {
    check(&[], &[], &[], None);
    check(&[], &[], &["10-a"], None);
}

#[test]
fn missing_annotated_required_plugin() {
    check(&[], &[(REQUIRED, "[ a ]")], &["10-b"], Some(r#"validation error: required plugin "a" not present"#));
}

#[test]
fn present_annotated_required_plugin() {
    check(&[], &[(REQUIRED, "- a\n- 20-b")], &["10-a", "20-b"], None);
}

#[test]
fn missing_global_required_plugin() {
    check(&["a"], &[], &[], Some(r#"validation error: required plugin "a" not present"#));
    check(&["10-a"], &[], &["20-a"], Some(r#"validation error: required plugin "10-a" not present"#));
    check(&["b", "a"], &[], &["20-c"], Some(r#"validation error: required plugins "b,a" not present"#));
}

#[test]
fn present_global_required_plugin() {
    check(&["a"], &[], &["10-a"], None);
    check(&["10-a"], &[], &["10-a"], None);
}

#[test]
fn tolerated_missing_plugin() {
    check(&["a"], &[(TOLERATE, "true")], &[], None);
    check(&[], &[(TOLERATE, "1"), (REQUIRED, "[a]")], &[], None);
    check(&["a"], &[(TOLERATE, "false")], &[], Some(r#"validation error: required plugin "a" not present"#));
    check(
        &["a"],
        &[(TOLERATE, "maybe")],
        &["10-a"],
        Some(
            "invalid tolerate-missing-plugins.noderesource.dev annotation \"maybe\": strconv.ParseBool: parsing \
             \"maybe\": invalid syntax",
        ),
    );
}

#[test]
fn present_annotated_and_global_required_plugin() {
    check(&["a"], &[(REQUIRED, r#"["b"]"#)], &["10-a", "10-b"], None);
}

#[test]
fn missing_annotated_with_present_global_required_plugin() {
    let expected = Some(r#"validation error: required plugin "b" not present"#);
    check(&["a"], &[(REQUIRED, "[b]")], &["10-a"], expected);
}

#[test]
fn present_annotated_with_missing_global_required_plugin() {
    let expected = Some(r#"validation error: required plugin "a" not present"#);
    check(&["a"], &[(REQUIRED, "[b]")], &["10-b"], expected);
}

#[test]
fn what_is_annotated_for_the_container_comes_first() {
    let of_container = format!("{REQUIRED}/container.cart");
    let of_other = format!("{REQUIRED}/container.till");
    let of_pod = format!("{REQUIRED}/pod");
    let expected = Some(r#"validation error: required plugin "a" not present"#);
    check(&[], &[(&of_container, "[a]"), (&of_pod, "[b]"), (REQUIRED, "[c]")], &[], expected);
    check(&[], &[(&of_other, "[b]"), (&of_pod, "[a]"), (REQUIRED, "[c]")], &[], expected);
    check(&[], &[(&of_other, "[b]"), (REQUIRED, "[a]")], &[], expected);
}

#[test]
fn an_annotation_that_cannot_be_read_forbids_the_container() {
    check(
        &[],
        &[(REQUIRED, "a")],
        &["10-a"],
        Some(
            r#"invalid required-plugins.noderesource.dev annotation "a": it must be a list of names: expected sequence start at line 1, column 1"#,
        ),
    );
}

#[test]
fn a_name_that_is_required_twice_and_missing_is_told_twice() {
    check(&["a"], &[(REQUIRED, "[a]")], &[], Some(r#"validation error: required plugins "a,a" not present"#));
}
