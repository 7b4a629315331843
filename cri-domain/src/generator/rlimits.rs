use nri_proto::{Field, Rlimit};
use oci_spec::runtime::PosixRlimitType;

use super::document::{self, Object, new_object, text};
use super::{SpecError, check};

/// Adjusts rlimits. Afterwards each kind that the adjustment names occurs once, as OCI requires.
pub(super) fn adjust(spec: &mut Object, rlimits: &[Rlimit]) -> Result<(), SpecError> {
    for Rlimit { kind, hard, soft, unknown: _ } in rlimits {
        let checked = check::field(Field::Rlimits, kind);
        checked.known::<PosixRlimitType>(kind, "the kind of limit is unknown")?;
        checked.require(soft <= hard, "the soft limit is above the hard one")?;
        let rlimit = new_object([("type", kind.as_str().into()), ("hard", (*hard).into()), ("soft", (*soft).into())]);
        let list = document::list(spec, &["process", "rlimits"])?;
        let mut rlimit = Some(rlimit);
        list.retain_mut(|known| {
            if text(known, "type") != Some(kind) {
                return true;
            }
            rlimit.take().map(|rlimit| *known = rlimit).is_some()
        });
        list.extend(rlimit);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use nri_proto::Adjustment;
    use serde_json::json;

    use super::super::testing::{check, check_refused};
    use super::*;

    fn with(kind: &str, hard: u64, soft: u64) -> impl FnOnce(&mut Adjustment) {
        let rlimit = Rlimit { kind: kind.to_owned(), hard, soft, ..Rlimit::default() };
        |it| it.rlimits.push(rlimit)
    }

    #[test]
    fn d05_a_limit_replaces_those_of_its_kind() {
        check(
            json!({"process": {"rlimits": [
                {"type": "RLIMIT_NOFILE", "hard": 1, "soft": 1}, {"type": "RLIMIT_CORE", "hard": 0, "soft": 0},
                {"type": "RLIMIT_NOFILE", "hard": 2, "soft": 2},
            ]}}),
            with("RLIMIT_NOFILE", u64::MAX, 7),
            json!({"process": {"rlimits": [
                {"type": "RLIMIT_NOFILE", "hard": u64::MAX, "soft": 7}, {"type": "RLIMIT_CORE", "hard": 0, "soft": 0},
            ]}}),
        );
    }

    #[test]
    fn u17_a_spec_without_a_process_gets_limits() {
        let expected = json!({"process": {"rlimits": [{"type": "RLIMIT_AS", "hard": 1, "soft": 1}]}});
        check(json!({}), with("RLIMIT_AS", 1, 1), expected);
    }

    #[test]
    fn a_limit_is_one_that_there_is() {
        check_refused(with("nofile", 1, 1), r#"Rlimits "nofile": the kind of limit is unknown"#);
        check_refused(with("RLIMIT_AS", 1, 2), r#"Rlimits "RLIMIT_AS": the soft limit is above the hard one"#);
    }
}
