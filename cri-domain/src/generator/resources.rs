//! Applies limits to `linux.resources` of a spec.
//!
//! Files:
//!
//! - `cpu.rs` sets CPU time, and CPU and memory nodes.
//! - `hugepages.rs` sets limits of huge pages.
//! - `memory.rs` sets limits of memory and swap.
//! - `unified.rs` sets files of cgroups of version 2.

mod cpu;
mod hugepages;
mod memory;
mod unified;

use nri_proto::{Field, Pids, Resources};
use serde_json::Value;

use super::document::Object;
use super::{ApplyReport, Host, SpecError, check, devices, document, rdt};

const PATH: [&str; 2] = ["linux", "resources"];

/// Applies the resources of an adjustment.
pub(super) fn adjust(
    spec: &mut Object,
    resources: &Resources,
    host: &Host,
    adjusted: &mut ApplyReport,
) -> Result<(), SpecError> {
    unified::remove_shadowing_files(spec, resources, adjusted)?;
    set(spec, resources, host, adjusted)
}

/// Applies new limits to a container that exists.
pub(super) fn update(
    spec: &mut Object,
    resources: &Resources,
    host: &Host,
    adjusted: &mut ApplyReport,
) -> Result<(), SpecError> {
    unified::remove_shadowing_files(spec, resources, adjusted)?;
    match memory::with_swap(spec, resources)? {
        Some(resources) => set(spec, &resources, host, adjusted),
        None => set(spec, resources, host, adjusted),
    }
}

fn set(spec: &mut Object, resources: &Resources, host: &Host, adjusted: &mut ApplyReport) -> Result<(), SpecError> {
    let Resources { memory, cpu, hugepage_limits, blockio_class, rdt_class, unified: _, devices, pids, unknown: _ } =
        resources;
    if let Some(cpu) = cpu {
        cpu::adjust(spec, cpu)?;
    }
    if let Some(memory) = memory {
        memory::adjust(spec, memory)?;
    }
    hugepages::adjust(spec, hugepage_limits, host, adjusted)?;
    unified::adjust(spec, resources)?;
    if let Some(Pids { limit, unknown: _ }) = pids {
        check::field(Field::PidsLimit, "").require(*limit >= -1, "the value is less than -1")?;
        document::set(spec, &[PATH[0], PATH[1], "pids"], "limit", *limit)?;
    }
    devices::add_rules(spec, devices)?;
    check_with_host(spec, host)?;
    if let Some(class) = blockio_class {
        adjust_blockio(spec, class, host, adjusted)?;
    }
    if let Some(class) = rdt_class {
        rdt::adjust_class(spec, class, host, adjusted)?;
    }
    Ok(())
}

/// Passes the resulting resources to the host, which may change or refuse them.
fn check_with_host(spec: &mut Object, host: &Host) -> Result<(), SpecError> {
    let Some(check) = &host.resources else { return Ok(()) };
    let Some(resources) = document::find_object(spec, &PATH)? else { return Ok(()) };
    check(resources).map_err(|source| SpecError::host(Field::None, "", source))
}

fn adjust_blockio(spec: &mut Object, class: &str, host: &Host, adjusted: &mut ApplyReport) -> Result<(), SpecError> {
    let Some(resolve) = &host.blockio else {
        adjusted.ignored.push(Field::BlockioClass);
        return Ok(());
    };
    if class.is_empty() {
        return document::unset(spec, &PATH, "blockIO");
    }
    let settings = resolve(class).and_then(|settings| Ok(serde_json::to_value(settings)?));
    let settings: Value = settings.map_err(|source| SpecError::host(Field::BlockioClass, "", source))?;
    document::set(spec, &PATH, "blockIO", settings)
}

#[cfg(test)]
mod tests {
    use nri_proto::{Adjustment, DeviceRule, LinuxAdjustment};
    use oci_spec::runtime::{LinuxBlockIo, LinuxIntelRdt};
    use serde_json::json;

    use super::super::host::{clos, refuse_contradictions};
    use super::super::testing::{check_linux, check_linux_refused};
    use super::super::{HostError, adjust};
    use super::*;

    fn with(resources: Resources) -> impl FnOnce(&mut LinuxAdjustment) {
        |it| it.resources = Some(resources)
    }

    fn adjustment(resources: Resources) -> Adjustment {
        let linux = LinuxAdjustment { resources: Some(resources), ..LinuxAdjustment::default() };
        Adjustment { linux: Some(linux), ..Adjustment::default() }
    }

    #[test]
    fn a_limit_of_processes_is_set_and_lifted() {
        let spec = json!({"linux": {"resources": {"pids": {"limit": 5}}}});
        for limit in [-1, 0, 7] {
            let resources = Resources { pids: Some(Pids { limit, ..Pids::default() }), ..Resources::default() };
            check_linux(spec.clone(), with(resources), json!({"linux": {"resources": {"pids": {"limit": limit}}}}));
        }
        let resources = Resources { pids: Some(Pids { limit: -2, ..Pids::default() }), ..Resources::default() };
        check_linux_refused(with(resources), "PidsLimit: the value is less than -1");
    }

    #[test]
    fn rules_for_devices_are_appended() {
        let rule = |kind: &str, access: &str| DeviceRule {
            kind: kind.to_owned(),
            minor: Some(-1),
            access: access.to_owned(),
            ..DeviceRule::default()
        };
        let rules = |rule| Resources { devices: vec![rule], ..Resources::default() };
        check_linux(
            json!({"linux": {"resources": {"devices": [{"allow": true}]}}}),
            with(rules(rule("c", "rw"))),
            json!({"linux": {"resources": {"devices": [
                {"allow": true}, {"allow": false, "type": "c", "minor": -1, "access": "rw"},
            ]}}}),
        );
        check_linux_refused(with(rules(rule("p", ""))), "Devices: the kind of devices that a rule is for is unknown");
        check_linux_refused(with(rules(rule("a", "rx"))), "Devices: the access of a rule is not of `r`, `w` and `m`");
    }

    #[test]
    fn classes_are_resolved_cleared_and_reported_if_nobody_knows_them() {
        let classes = |class: &str| {
            adjustment(Resources {
                blockio_class: Some(class.to_owned()),
                rdt_class: Some(class.to_owned()),
                ..Resources::default()
            })
        };
        let blockio = |class: &str| -> Result<LinuxBlockIo, HostError> {
            let weight = if class == "gold" { 500 } else { return Err("no such class".into()) };
            Ok(LinuxBlockIo::default().set_weight(Some(weight)).clone())
        };
        let host = Host {
            blockio: Some(Box::new(blockio)),
            rdt: Some(Box::new(|class| Ok::<LinuxIntelRdt, _>(clos(class)))),
            ..Host::default()
        };
        let mut spec = json!({"linux": {"intelRdt": {"schemata": ["L3:0=f"]}}});
        adjust(&mut spec, &classes("gold"), &host).unwrap();
        let expected = json!({"linux": {"intelRdt": {"closID": "gold"}, "resources": {"blockIO": {"weight": 500}}}});
        assert_eq!(spec, expected);

        let error = adjust(&mut spec, &classes("tin"), &host).unwrap_err();
        assert_eq!(error.to_string(), "could not adjust BlockioClass");
        assert_eq!(spec, expected);

        let adjusted = adjust(&mut spec, &classes("gold"), &Host::default()).unwrap();
        assert_eq!(adjusted.ignored, [Field::BlockioClass, Field::RdtClass]);
        assert_eq!(spec, expected);

        adjust(&mut spec, &classes(""), &host).unwrap();
        assert_eq!(spec, json!({"linux": {"resources": {}}}));
    }

    #[test]
    fn the_operators_check_sees_the_result() {
        let host = Host { resources: Some(Box::new(refuse_contradictions)), ..Host::default() };
        let memory = |swap| nri_proto::Memory { swap: Some(swap), ..nri_proto::Memory::default() };
        let adjustment = |swap| adjustment(Resources { memory: Some(memory(swap)), ..Resources::default() });
        let mut spec = json!({"linux": {"resources": {"memory": {"limit": 100}}}});
        adjust(&mut spec, &adjustment(100), &host).unwrap();
        adjust(&mut spec, &adjustment(99), &host).unwrap_err();
        assert_eq!(spec["linux"]["resources"]["memory"]["swap"], 100);
    }

    #[test]
    fn the_operators_check_may_change_the_result() {
        let no_swap = |resources: &mut Object| {
            document::unset(resources, &["memory"], "swap")?;
            Ok(())
        };
        let host = Host { resources: Some(Box::new(no_swap)), ..Host::default() };
        let memory = nri_proto::Memory { limit: Some(100), ..nri_proto::Memory::default() };
        let adjustment = adjustment(Resources { memory: Some(memory), ..Resources::default() });
        let mut spec = json!({});
        adjust(&mut spec, &adjustment, &host).unwrap();
        assert_eq!(spec, json!({"linux": {"resources": {"memory": {"limit": 100}}}}));
    }
}
