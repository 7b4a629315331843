use nri_proto::{Hook, Hooks};
use serde_json::json;

use super::*;

fn entry(what: impl Into<EntryKind>) -> Entry {
    Entry { sequence: 0, occasion: occasion("10-a", "c").into(), what: what.into(), is_cut: false }
}

fn hooks(env: &[&str]) -> Value {
    let env = env.iter().map(|&variable| variable.to_owned()).collect();
    Hooks { poststop: vec![Hook { path: "/h".to_owned(), env, ..Hook::default() }], ..Hooks::default() }.into()
}

#[test]
fn values_of_environment_variables_are_marked_and_can_be_masked() {
    let secret = entry(env("TOKEN", Some("old secret"), Some("new secret")));
    assert!(secret.is_secret());
    assert_eq!(serde_json::to_value(&secret).unwrap()["secret"], json!(true));
    let masked = secret.masked();
    assert_eq!(masked.to_string(), "10-a set Env TOKEN: *** -> ***");
    let json = serde_json::to_string(&masked).unwrap();
    assert!(json.ends_with(r#""key":"TOKEN","secret":true,"before":"***","after":"***"}"#), "{json}");
}

#[test]
fn variables_of_hooks_are_marked_and_can_be_masked() {
    let secret = entry(change(Field::OciHooks, "", None, Some(hooks(&["TOKEN=a=b", "NAME"]))));
    assert!(secret.is_secret());
    let expected = r#"10-a set OciHooks: {"poststop":[{"path":"/h","args":[],"env":["TOKEN=***","NAME"]}]}"#;
    assert_eq!(secret.masked().to_string(), expected);
    assert!(!entry(change(Field::OciHooks, "", None, Some(hooks(&[])))).is_secret());
}

#[test]
fn what_is_no_secret_stays_and_is_not_marked() {
    for what in [change(Field::Annotations, "a", None, text("1")), EntryKind::TimedOut] {
        let entry = entry(what);
        assert!(!entry.is_secret());
        assert_eq!(entry.masked(), entry);
        assert_eq!(serde_json::to_value(&entry).unwrap().get("secret"), None);
    }
}
