use nri_proto::{Change, ChangeMap, Field};

use super::document::Object;
use super::host::{FilterDecision, Host, check_annotation};
use super::{SpecError, check, document};

const PATH: [&str; 1] = ["annotations"];

pub(super) fn adjust(spec: &mut Object, changes: &ChangeMap<String>, host: &Host) -> Result<(), SpecError> {
    for (key, change) in changes.iter() {
        let checked = check::field(Field::Annotations, key);
        checked.require(!key.is_empty(), "the key is empty")?;
        checked.text(key)?;
        if let Some(value) = change.value() {
            checked.text(value)?;
        }
        let filtered = match &host.annotations {
            Some(filter) => filter(key, change.map(String::as_str)),
            None => Ok(FilterDecision::Kept),
        };
        let refused = |error| SpecError::host(Field::Annotations, key, error);
        if filtered.map_err(refused)? == FilterDecision::Dropped {
            continue;
        }
        check_annotation(key, &host.allow).map_err(|error| refused(error.into()))?;
        match change {
            Change::Set(value) | Change::Replace(value) => {
                document::object(spec, &PATH)?.insert(key.to_owned(), value.clone().into());
            }
            Change::Remove => document::unset(spec, &PATH, key)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use nri_proto::Adjustment;
    use serde_json::json;

    use super::super::adjust;
    use super::super::testing::{check, check_refused};
    use super::*;

    #[test]
    fn annotations_are_set_and_removed_in_their_places() {
        let change = |adjustment: &mut Adjustment| {
            adjustment.annotations.set("new", "1").unwrap();
            adjustment.annotations.replace("a", "2").unwrap();
            adjustment.annotations.remove("b");
            adjustment.annotations.remove("nowhere");
        };
        let spec = json!({"annotations": {"b": "0", "a": "0", "c": "0"}, "x": 1});
        check(spec, change, json!({"annotations": {"a": "2", "c": "0", "new": "1"}, "x": 1}));
        check(json!({}), change, json!({"annotations": {"a": "2", "new": "1"}}));
    }

    #[test]
    fn what_is_not_there_is_not_made_to_be_removed_from() {
        check(json!({}), |adjustment| adjustment.annotations.remove("a"), json!({}));
    }

    #[test]
    fn an_annotation_has_a_key_and_no_nul() {
        check_refused(|it| it.annotations.set("", "1").unwrap(), "Annotations: the key is empty");
        check_refused(|it| it.annotations.set("a\0", "1").unwrap(), r#"Annotations "a\x00": the text contains a NUL"#);
        check_refused(|it| it.annotations.set("a", "\0").unwrap(), r#"Annotations "a": the text contains a NUL"#);
    }

    #[test]
    fn d08_a_setting_of_a_runtime_is_neither_set_nor_removed_and_stays_as_the_runtime_made_it() {
        let key = "io.kubernetes.cri.sandbox-id";
        let changes: [fn(&mut Adjustment, &str); 3] = [
            |adjustment, key| adjustment.annotations.set(key, "another-pod").unwrap(),
            |adjustment, key| adjustment.annotations.replace(key, "another-pod").unwrap(),
            |adjustment, key| adjustment.annotations.remove(key),
        ];
        let before = json!({"annotations": {key: "pod", "a": "0"}});
        for change in changes {
            let (mut spec, mut adjustment) = (before.clone(), Adjustment::default());
            adjustment.annotations.set("a", "1").unwrap();
            change(&mut adjustment, key);
            let error = adjust(&mut spec, &adjustment, &Host::of_this_machine()).unwrap_err();
            assert_eq!(error.to_string(), r#"could not adjust Annotations "io.kubernetes.cri.sandbox-id""#);
            let source = std::error::Error::source(&error).unwrap().to_string();
            assert!(source.contains("Host::allow.annotations"), "{source}");
            assert_eq!(spec, before);
        }
        // A plugin does not affect annotations that the runtime has set.
        check(before, |it| _ = it.annotations.set("a", "1"), json!({"annotations": {key: "pod", "a": "1"}}));
    }

    #[test]
    fn a_filter_that_keeps_a_change_opens_nothing_and_one_that_drops_it_refuses_nothing() {
        let mut adjustment = Adjustment::default();
        adjustment.annotations.set("io.containerd.runc.v2.group", "x").unwrap();
        let keeps = Host { annotations: Some(Box::new(|_, _| Ok(FilterDecision::Kept))), ..Host::default() };
        adjust(&mut json!({}), &adjustment, &keeps).unwrap_err();
        let drops = Host { annotations: Some(Box::new(|_, _| Ok(FilterDecision::Dropped))), ..Host::default() };
        let mut spec = json!({});
        adjust(&mut spec, &adjustment, &drops).unwrap();
        assert_eq!(spec, json!({}));
    }

    #[test]
    fn a_filter_keeps_drops_and_refuses() {
        let filter = |key: &str, change: Change<&str>| match (key, change) {
            ("keep", _) => Ok(FilterDecision::Kept),
            (_, Change::Remove) => Err("not to be removed".into()),
            _ => Ok(FilterDecision::Dropped),
        };
        let host = Host { annotations: Some(Box::new(filter)), ..Host::default() };
        let mut adjustment = Adjustment::default();
        adjustment.annotations.set("keep", "1").unwrap();
        adjustment.annotations.set("drop", "1").unwrap();
        let mut spec = json!({});
        adjust(&mut spec, &adjustment, &host).unwrap();
        assert_eq!(spec, json!({"annotations": {"keep": "1"}}));

        adjustment.annotations.remove("z");
        let error = adjust(&mut spec, &adjustment, &host).unwrap_err();
        assert_eq!(error.to_string(), r#"could not adjust Annotations "z""#);
        assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "not to be removed");
    }
}
