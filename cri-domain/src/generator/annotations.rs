use nri_proto::{Change, ChangeMap, Field};

use super::document::Object;
use super::host::{Filtered, Host};
use super::{SpecError, check, document};

const PATH: [&str; 1] = ["annotations"];

pub(super) fn adjust(spec: &mut Object, changes: &ChangeMap<String>, host: &Host) -> Result<(), SpecError> {
    for (key, change) in changes.iter() {
        let checked = check::of(Field::Annotations, key);
        checked.holds(!key.is_empty(), "the key is empty")?;
        checked.text(key)?;
        if let Some(value) = change.value() {
            checked.text(value)?;
        }
        let filtered = match &host.annotations {
            Some(filter) => filter(key, change.map(String::as_str)),
            None => Ok(Filtered::Kept),
        };
        match (filtered.map_err(|error| SpecError::host(Field::Annotations, key, error))?, change) {
            (Filtered::Dropped, _) => {}
            (Filtered::Kept, Change::Set(value) | Change::Replace(value)) => {
                document::object(spec, &PATH)?.insert(key.to_owned(), value.clone().into());
            }
            (Filtered::Kept, Change::Remove) => document::unset(spec, &PATH, key)?,
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
        check_refused(|it| it.annotations.set("a\0", "1").unwrap(), r#"Annotations "a\x00": there is a NUL in it"#);
        check_refused(|it| it.annotations.set("a", "\0").unwrap(), r#"Annotations "a": there is a NUL in it"#);
    }

    #[test]
    fn a_filter_keeps_drops_and_refuses() {
        let filter = |key: &str, change: Change<&str>| match (key, change) {
            ("keep", _) => Ok(Filtered::Kept),
            (_, Change::Remove) => Err("not to be removed".into()),
            _ => Ok(Filtered::Dropped),
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
