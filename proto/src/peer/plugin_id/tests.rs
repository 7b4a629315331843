//! Plugin ids, compared with upstream.

use proptest::prelude::*;

use super::*;

#[test]
fn an_id_is_two_digits_a_dash_and_a_name() {
    check("10-logger", "10", "logger");
    check("00-a", "00", "a");
    check("99-A.b_c+d-e", "99", "A.b_c+d-e");
    check("05--", "05", "-");
    check("10-20-x", "10", "20-x");
}

#[test]
fn dots_alone_are_a_name() {
    check("10-.", "10", ".");
    check("10-..", "10", "..");
}

#[test]
fn what_has_no_dash_has_no_index() {
    check_error("", r#"invalid plugin name "", idx-pluginname expected"#);
    check_error("logger", r#"invalid plugin name "logger", idx-pluginname expected"#);
}

#[test]
fn an_index_of_another_length_is_refused() {
    check_error("-logger", r#"invalid plugin index "", must be 2 digits"#);
    check_error("1-logger", r#"invalid plugin index "1", must be 2 digits"#);
    check_error("100-logger", r#"invalid plugin index "100", must be 2 digits"#);
}

#[test]
fn an_index_of_other_characters_is_refused() {
    check_error("1a-logger", r#"invalid plugin index "1a" (not [0-9][0-9])"#);
    check_error("+1-logger", r#"invalid plugin index "+1" (not [0-9][0-9])"#);
    check_error("é-logger", r#"invalid plugin index "é" (not [0-9][0-9])"#);
}

#[test]
fn a_name_of_other_characters_is_refused() {
    check_error("10-", "invalid plugin name: name is empty");
    check_error("10-a b", r#"invalid plugin name "a b": contains invalid character ' '"#);
    check_error("10-a/../b", r#"invalid plugin name "a/../b": contains invalid character '/'"#);
    check_error("10-é", r#"invalid plugin name "é": contains invalid character 'é'"#);
    check_error("10-a\n", r#"invalid plugin name "a\n": contains invalid character '\n'"#);
}

#[test]
fn a_name_that_fits_no_file_is_refused() {
    let longest = format!("10-{}", "n".repeat(MAX_NAME_LEN));
    assert_eq!(longest.len(), 255);
    check(&longest, "10", &longest[3..]);
    check_error(&format!("{longest}n"), "invalid plugin name: 253 bytes, maximum is 252");
}

#[test]
fn a_plugin_that_registers_hears_of_its_name_first() {
    let error = |index, name| PluginId::new(index, name).unwrap_err().to_string();
    assert_eq!(error("x", ""), "invalid plugin name: name is empty");
    assert_eq!(error("x", "logger"), r#"invalid plugin index "x", must be 2 digits"#);
    assert_eq!(error("1-", "logger"), r#"invalid plugin index "1-" (not [0-9][0-9])"#);
}

#[test]
fn an_error_does_not_repeat_megabytes() {
    let long = "é".repeat(1 << 20);
    for error in [long.parse::<PluginId>(), PluginId::new(&long, "a"), PluginId::new("10", &long)] {
        assert!(error.unwrap_err().to_string().len() < 400);
    }
}

#[test]
fn ids_sort_by_index_and_then_by_name() {
    let sorted = ["00-z", "05-a", "10-+", "10--", "10-A", "10-a", "10-a-b", "10-aa", "99-0"];
    let mut ids: Vec<PluginId> = sorted.iter().rev().map(|text| text.parse().unwrap()).collect();
    ids.sort();
    assert_eq!(ids.iter().map(PluginId::as_str).collect::<Vec<_>>(), sorted);
}

proptest! {
    #[test]
    fn reading_never_panics(text in "\\PC*", near in "[0-9é]{0,3}-?[a-z/]*", index in "\\PC*", name in "\\PC*") {
        let _ = text.parse::<PluginId>();
        let _ = near.parse::<PluginId>();
        let _ = PluginId::new(&index, &name);
    }

    #[test]
    fn what_is_printed_can_be_read(index in "[0-9]{2}", name in "[A-Za-z0-9_.+-]{1,252}") {
        let id = PluginId::new(&index, &name).unwrap();
        prop_assert_eq!((id.index(), id.name()), (index.as_str(), name.as_str()));
        prop_assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn the_order_is_that_of_the_parts(a in "[0-2]{2}-[a.+-]{1,3}", b in "[0-2]{2}-[a.+-]{1,3}") {
        let (a, b): (PluginId, PluginId) = (a.parse().unwrap(), b.parse().unwrap());
        prop_assert_eq!(a.cmp(&b), (a.index(), a.name()).cmp(&(b.index(), b.name())));
    }
}

#[track_caller]
fn check(text: &str, index: &str, name: &str) {
    let id: PluginId = text.parse().unwrap();
    assert_eq!((id.index(), id.name()), (index, name));
    assert_eq!(id, PluginId::new(index, name).unwrap());
    assert_eq!(id.to_string(), text);
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
    assert_eq!(text.parse::<PluginId>().unwrap_err().to_string(), expected);
}
