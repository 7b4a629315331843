use nri_proto::Pod;

use super::*;
use crate::Config;

const KEY: &str = "tolerate.example.org";

fn pod(namespace: &str, annotations: &[(&str, &str)]) -> Pod {
    let annotations = annotations.iter().map(|&(key, value)| (format!("{KEY}{key}"), value.to_owned())).collect();
    Pod { namespace: namespace.to_owned(), annotations, ..Pod::default() }
}

fn covers(annotations: &[(&str, &str)], container: Option<&str>) -> Result<bool, String> {
    let exemptions = Exemptions { namespaces: Namespaces::none(), annotation: KEY.to_owned() };
    exemptions.cover(&pod("shop", annotations), container).map_err(|error| error.to_string())
}

#[test]
fn what_is_said_about_the_container_comes_before_what_is_said_about_the_pod() {
    let all = [("/container.cart", "false"), ("/pod", "true"), ("", "false")];
    assert_eq!(covers(&all, Some("cart")), Ok(false));
    assert_eq!(covers(&all, Some("till")), Ok(true));
    assert_eq!(covers(&all, None), Ok(true));
    assert_eq!(covers(&all[2..], None), Ok(false));
    assert_eq!(covers(&[("", "true")], Some("cart")), Ok(true));
    assert_eq!(covers(&[], Some("cart")), Ok(false));
}

#[test]
fn what_goes_for_yes_and_no_with_go_goes_here() {
    for yes in ["1", "t", "T", "true", "TRUE", "True"] {
        assert_eq!(covers(&[("", yes)], None), Ok(true), "{yes}");
    }
    for no in ["0", "f", "F", "false", "FALSE", "False"] {
        assert_eq!(covers(&[("", no)], None), Ok(false), "{no}");
    }
    for (bad, quoted) in [("yes", r#""yes""#), ("tRue", r#""tRue""#), ("", r#""""#)] {
        let expected = format!(
            "invalid tolerate.example.org annotation {quoted}: strconv.ParseBool: parsing {quoted}: invalid syntax"
        );
        assert_eq!(covers(&[("", bad)], None), Err(expected));
    }
}

#[test]
fn by_default_the_pods_of_kubernetes_itself_are_exempt_and_nobody_can_exempt_itself() {
    let exemptions = Config::default().exemptions();
    assert_eq!(exemptions.cover(&pod("kube-system", &[]), None), Ok(true));
    assert_eq!(exemptions.cover(&pod("shop", &[("", "true")]), None), Ok(false));
}

#[test]
fn the_operator_chooses_namespaces_and_annotation() {
    let text = "required_exempt_namespaces = ['nri']\nrequired_tolerate_annotation = 'tolerate.example.org'";
    let exemptions = Config::from_toml(text).unwrap().exemptions();
    assert_eq!(exemptions.cover(&pod("nri", &[("", "nonsense")]), None), Ok(true));
    assert_eq!(exemptions.cover(&pod("kube-system", &[]), None), Ok(false));
    assert_eq!(exemptions.cover(&pod("shop", &[("", "true")]), None), Ok(true));
}

#[test]
fn the_annotation_of_the_default_validator_exempts_nobody_from_what_the_operator_requires() {
    let text = "[default_validator]\nenable = true\ntolerate_missing_plugins_annotation = 'tolerate.example.org'";
    let exemptions = Config::from_toml(text).unwrap().exemptions();
    assert_eq!(exemptions.cover(&pod("shop", &[("", "true")]), None), Ok(false));
}
