use nri_proto::{Field, Rdt};
use serde_json::Value;

use super::document::Object;
use super::{ApplyReport, Host, SpecError, check, document};

const PATH: [&str; 2] = ["linux", "intelRdt"];

pub(super) fn adjust_class(
    spec: &mut Object,
    class: &str,
    host: &Host,
    adjusted: &mut ApplyReport,
) -> Result<(), SpecError> {
    let Some(resolve) = &host.rdt else {
        adjusted.ignored.push(Field::RdtClass);
        return Ok(());
    };
    if class.is_empty() {
        return document::unset(spec, &["linux"], "intelRdt");
    }
    check_name(Field::RdtClass, class)?;
    let settings = resolve(class).and_then(|settings| Ok(serde_json::to_value(settings)?));
    let settings: Value = settings.map_err(|source| SpecError::host(Field::RdtClass, "", source))?;
    document::set(spec, &["linux"], "intelRdt", settings)
}

/// Sets parts of the RDT settings. They override those of a class.
pub(super) fn adjust(spec: &mut Object, rdt: &Rdt) -> Result<(), SpecError> {
    let Rdt { clos_id, schemata, enable_monitoring, remove, unknown: _ } = rdt;
    if *remove {
        document::unset(spec, &["linux"], "intelRdt")?;
    }
    if let Some(id) = clos_id {
        check_name(Field::RdtClosID, id)?;
        document::set(spec, &PATH, "closID", id.as_str())?;
    }
    if let Some(lines) = schemata {
        let are_lines = lines.iter().all(|line| !line.contains(['\0', '\n']));
        check::field(Field::RdtSchemata, "").require(are_lines, "an entry is more than one line")?;
        document::set(spec, &PATH, "schemata", lines.as_slice())?;
    }
    if let Some(monitor) = enable_monitoring {
        document::set(spec, &PATH, "enableMonitoring", *monitor)?;
    }
    Ok(())
}

/// Requires the name of an RDT class: a directory name, or `/` for the default class.
fn check_name(field: Field, name: &str) -> Result<(), SpecError> {
    let is_name = name == "/" || !matches!(name, "." | "..") && !name.contains(['/', '\0', '\n']);
    check::field(field, "").require(is_name, "this is not the name of a class")
}

#[cfg(test)]
mod tests {
    use nri_proto::{Adjustment, LinuxAdjustment, Resources};
    use serde_json::json;

    use super::super::testing::{check_linux, check_linux_refused};
    use super::super::{adjust, update};
    use super::*;

    fn with(rdt: Rdt) -> impl FnOnce(&mut LinuxAdjustment) {
        |it| it.rdt = Some(rdt)
    }

    #[test]
    fn each_part_is_set_for_itself() {
        let spec = json!({"linux": {"intelRdt": {"closID": "a", "l3CacheSchema": "x"}}});
        let rdt = Rdt { schemata: Some(vec!["L3:0=f".to_owned()]), enable_monitoring: Some(false), ..Rdt::default() };
        let expected = json!({"closID": "a", "l3CacheSchema": "x", "schemata": ["L3:0=f"], "enableMonitoring": false});
        check_linux(spec, with(rdt), json!({"linux": {"intelRdt": expected}}));
    }

    #[test]
    fn a_removal_comes_before_what_is_set() {
        let spec = json!({"linux": {"intelRdt": {"closID": "a", "l3CacheSchema": "x"}}});
        check_linux(spec.clone(), with(Rdt { remove: true, ..Rdt::default() }), json!({"linux": {}}));
        let rdt = Rdt { remove: true, clos_id: Some("b".to_owned()), ..Rdt::default() };
        check_linux(spec, with(rdt), json!({"linux": {"intelRdt": {"closID": "b"}}}));
    }

    #[test]
    fn a_class_is_a_name_and_a_schema_a_line() {
        let id = |id: &str| Rdt { clos_id: Some(id.to_owned()), ..Rdt::default() };
        check_linux(json!({}), with(id("/")), json!({"linux": {"intelRdt": {"closID": "/"}}}));
        for name in ["..", "a/b", "a\n"] {
            check_linux_refused(with(id(name)), "RdtClosID: this is not the name of a class");
        }
        for name in ["..", ".", "a/b", "../../etc", "/etc", "a\n", "a\0"] {
            let resources = Resources { rdt_class: Some(name.to_owned()), ..Resources::default() };
            let linux = LinuxAdjustment { resources: Some(resources.clone()), ..LinuxAdjustment::default() };
            let adjustment = Adjustment { linux: Some(linux), ..Adjustment::default() };
            let (mut spec, host) = (json!({}), Host::of_this_machine());
            for error in
                [adjust(&mut spec, &adjustment, &host).unwrap_err(), update(&mut spec, &resources, &host).unwrap_err()]
            {
                assert_eq!(error.to_string(), "cannot adjust RdtClass: this is not the name of a class", "{name:?}");
            }
            assert_eq!(spec, json!({}));
        }
        let lines = Rdt { schemata: Some(vec!["a\nb".to_owned()]), ..Rdt::default() };
        check_linux_refused(with(lines), "RdtSchemata: an entry is more than one line");
    }
}
