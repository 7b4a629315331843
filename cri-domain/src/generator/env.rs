use std::collections::HashMap;

use nri_proto::{ChangeList, EnvVar, Field};
use serde_json::Value;

use super::document::Object;
use super::{SpecError, check, document};

/// Adjusts environment variables. A variable that exists keeps its position. New variables are
/// appended in the order of the adjustment.
pub(super) fn adjust(spec: &mut Object, changes: &ChangeList<EnvVar>) -> Result<(), SpecError> {
    // If the adjustment has several values of one variable, the last one is used.
    let mut values: HashMap<&str, Option<&str>> = HashMap::new();
    for (name, change) in changes.iter() {
        check_name(name)?;
        let value = change.into_value().map(|variable| variable.value.as_str());
        check::field(Field::Env, name).text(value.unwrap_or_default())?;
        values.insert(name, value);
    }
    let path = ["process", "env"];
    if let Some(env) = document::find_list(spec, &path)? {
        let mut seen = HashMap::new();
        env.retain_mut(|entry| {
            let Some((name, _)) = entry.as_str().and_then(|entry| entry.split_once('=')) else { return true };
            let Some((&name, &value)) = values.get_key_value(name) else { return true };
            let is_first = seen.insert(name, ()).is_none();
            match value {
                Some(value) if is_first => {
                    *entry = variable(name, value);
                    true
                }
                Some(_) | None => false,
            }
        });
        seen.into_keys().for_each(|name| _ = values.remove(name));
    }
    for (name, _) in changes.iter() {
        if let Some(Some(value)) = values.remove(name) {
            document::list(spec, &path)?.push(variable(name, value));
        }
    }
    Ok(())
}

fn variable(name: &str, value: &str) -> Value {
    format!("{name}={value}").into()
}

fn check_name(name: &str) -> Result<(), SpecError> {
    let checked = check::field(Field::Env, name);
    checked.require(!name.is_empty(), "the name is empty")?;
    checked.require(!name.contains('='), "the name has an equals sign")?;
    checked.text(name)
}

#[cfg(test)]
mod tests {
    use nri_proto::Adjustment;
    use serde_json::json;

    use super::super::testing::{check, check_refused};
    use super::*;

    fn set(adjustment: &mut Adjustment, name: &str, value: &str) {
        adjustment.env.set(EnvVar::new(name, value)).unwrap();
    }

    #[test]
    fn variables_change_in_their_places_and_new_ones_come_last() {
        check(
            json!({"process": {"env": ["A=1", "B=2", "C=3"]}}),
            |it| {
                set(it, "Z", "z");
                set(it, "B", "b=b");
                it.env.remove("A");
                it.env.remove("nowhere");
                set(it, "Y", "");
            },
            json!({"process": {"env": ["B=b=b", "C=3", "Z=z", "Y="]}}),
        );
    }

    #[test]
    fn a_spec_without_a_process_gets_one_only_if_something_is_set() {
        check(json!({}), |it| it.env.remove("A"), json!({}));
        check(json!({"process": null}), |it| set(it, "A", "1"), json!({"process": {"env": ["A=1"]}}));
    }

    #[test]
    fn what_is_not_mentioned_stays_also_if_it_is_no_variable() {
        check(
            json!({"process": {"env": ["junk", "B=1", "B=2", 7, "A=1"]}}),
            |it| set(it, "A", "2"),
            json!({"process": {"env": ["junk", "B=1", "B=2", 7, "A=2"]}}),
        );
    }

    #[test]
    fn a_variable_that_is_there_twice_changes_twice() {
        let spec = json!({"process": {"env": ["A=1", "B=1", "A=2"]}});
        check(spec.clone(), |it| set(it, "A", "3"), json!({"process": {"env": ["A=3", "B=1"]}}));
        check(spec, |it| it.env.remove("A"), json!({"process": {"env": ["B=1"]}}));
    }

    #[test]
    fn of_two_values_the_last_counts() {
        check(
            json!({}),
            |it| {
                set(it, "A", "1");
                set(it, "B", "1");
                set(it, "A", "2");
            },
            json!({"process": {"env": ["A=2", "B=1"]}}),
        );
    }

    #[test]
    fn u18_a_name_is_a_name_and_a_value_ends_where_it_ends() {
        check_refused(|it| set(it, "A=B", "c"), r#"Env "A=B": the name has an equals sign"#);
        check_refused(|it| set(it, "", "c"), "Env: the name is empty");
        check_refused(|it| set(it, "A", "c\0d"), r#"Env "A": the text contains a NUL"#);
        // A value may contain newlines.
        check(json!({}), |it| set(it, "A", "c\nd"), json!({"process": {"env": ["A=c\nd"]}}));
    }
}
