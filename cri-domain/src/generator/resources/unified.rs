use nri_proto::{Field, Resources};

use crate::generator::document::{self, Object};
use crate::generator::{ApplyReport, SpecError, check};
use crate::limits;

const PATH: [&str; 3] = ["linux", "resources", "unified"];

/// The controllers whose files may be set. Other files, such as `cgroup.procs` and `cgroup.kill`,
/// move or kill processes, also those of other containers.
const CONTROLLERS: [&str; 8] = ["cpu", "cpuset", "hugetlb", "io", "memory", "misc", "pids", "rdma"];

/// The controllers whose files have one line for each device or resource. Runtimes write these
/// lines one by one.
const MULTI_LINE_CONTROLLERS: [&str; 3] = ["io", "misc", "rdma"];

/// Removes files from the spec that would override a limit of these resources, because runtimes
/// write files after fields. If the resources set both the field and the file, the file takes
/// effect and the field is reported as overridden.
pub(super) fn remove_shadowing_files(
    spec: &mut Object,
    resources: &Resources,
    adjusted: &mut ApplyReport,
) -> Result<(), SpecError> {
    for limits::FileLimit { field, file, .. } in limits::file_limits(resources) {
        if resources.unified.contains_key(&file) {
            adjusted.overridden.push(field);
        } else {
            document::unset(spec, &PATH, &file)?;
        }
    }
    Ok(())
}

pub(super) fn adjust(spec: &mut Object, resources: &Resources) -> Result<(), SpecError> {
    for (file, value) in &resources.unified {
        // Go plugins pass values that they read from these files, which end with a newline.
        let value = value.trim_ascii();
        check_file(file, value)?;
        document::object(spec, &PATH)?.insert(file.clone(), value.into());
    }
    Ok(())
}

/// Requires a file of a known controller in the container's own cgroup. This holds for plugins, and
/// for updates from the kubelet.
fn check_file(file: &str, value: &str) -> Result<(), SpecError> {
    let checked = check::field(Field::CgroupsUnified, file);
    let controller = file.split_once('.').and_then(|(controller, parameter)| {
        let is_part =
            |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
        (CONTROLLERS.contains(&controller) && parameter.split('.').all(is_part)).then_some(controller)
    });
    let Some(controller) = controller else {
        return Err(checked.refuse(
            "this is not a file of the controllers cpu, cpuset, hugetlb, io, memory, misc, pids and rdma, and no setting \
             allows another",
        ));
    };
    checked.text(value)?;
    let is_line = !value.contains(['\n', '\r']) || MULTI_LINE_CONTROLLERS.contains(&controller);
    checked.require(is_line, "the value is more than one line")
}

#[cfg(test)]
mod tests {
    use nri_proto::{Adjustment, LinuxAdjustment};
    use serde_json::{Value, json};

    use super::*;
    use crate::generator::testing::{check_linux, check_linux_refused};
    use crate::generator::{Host, adjust, update};

    fn unified(file: &str) -> Resources {
        Resources { unified: [(file.to_owned(), "max".to_owned())].into(), ..Resources::default() }
    }

    fn with(resources: Resources) -> impl FnOnce(&mut LinuxAdjustment) {
        |it| it.resources = Some(resources)
    }

    #[test]
    fn files_of_cgroup_v2_are_written_in_the_containers_cgroup_alone() {
        let expected = json!({"linux": {"resources": {"unified": {"memory.high": "max"}}}});
        check_linux(json!({}), with(unified("memory.high")), expected);
    }

    #[test]
    fn a_file_that_is_of_no_known_controller_is_refused_by_name_in_adjustments_and_updates() {
        for file in [
            "",
            " memory.high",
            ".",
            "..",
            "../memory.high",
            "CGROUP.procs",
            "a/b",
            "cgroup.freeze",
            "cgroup.kill",
            "cgroup.procs",
            "cgroup.subtree_control",
            "cgroup.threads",
            "cgroup.type",
            "cpu",
            "cpu.",
            "cpu..max",
            "cpu.max.",
            "cpu./../cgroup.procs",
            "cpu.max/../cgroup.procs",
            "cpuacct.usage",
            "irq.pressure",
            "memory.high ",
            "memory.high\0",
            "memory.high\n",
            "memory/../cgroup.procs",
            "memory\0.high",
            "x.y",
        ] {
            let of = if file.is_empty() { String::new() } else { format!(" {}", nri_proto::quote::quoted(file)) };
            let expected = format!(
                "CgroupsUnified{of}: this is not a file of the controllers cpu, cpuset, hugetlb, io, memory, misc, pids \
                 and rdma, and no setting allows another"
            );
            check_linux_refused(with(unified(file)), &expected);
            let mut spec = json!({});
            let error = update(&mut spec, &unified(file), &Host::of_this_machine()).unwrap_err();
            assert_eq!((error.to_string(), spec), (format!("cannot adjust {expected}"), json!({})));
        }
    }

    #[test]
    fn files_of_every_controller_are_taken() {
        for file in [
            "cpu.idle",
            "cpu.uclamp.min",
            "cpuset.cpus.exclusive",
            "hugetlb.2MB.rsvd.max",
            "io.bfq.weight",
            "memory.swap.max",
            "memory.zswap.writeback",
            "misc.max",
            "pids.max",
            "rdma.max",
        ] {
            check_linux(json!({}), with(unified(file)), json!({"linux": {"resources": {"unified": {file: "max"}}}}));
        }
    }

    #[test]
    fn a_value_is_a_line_but_where_each_device_has_one() {
        let of = |file: &str, value: &str| Resources {
            unified: [(file.to_owned(), value.to_owned())].into(),
            ..Resources::default()
        };
        for value in ["1\n2", "1\r2"] {
            let expected = r#"CgroupsUnified "memory.high": the value is more than one line"#;
            check_linux_refused(with(of("memory.high", value)), expected);
        }
        for file in ["memory.high", "io.max"] {
            let expected = format!("CgroupsUnified {file:?}: the text contains a NUL");
            check_linux_refused(with(of(file, "1\0")), &expected);
        }
        let expected = json!({"linux": {"resources": {"unified": {"memory.high": "max"}}}});
        check_linux(json!({}), with(of("memory.high", " max\n")), expected);
        let expected = json!({"linux": {"resources": {"unified": {"io.max": "8:0 rbps=1\n8:16 rbps=2"}}}});
        check_linux(json!({}), with(of("io.max", "8:0 rbps=1\n8:16 rbps=2\n")), expected);
    }

    /// Checks an adjustment and an update.
    fn check_both(resources: &Resources, expected: Value, overridden: &[Field]) {
        let kubelet =
            json!({"unified": {"memory.max": "100", "memory.swap.max": "0", "memory.min": "7", "pids.max": "9"}});
        let before = json!({"linux": {"resources": kubelet}});
        let linux = LinuxAdjustment { resources: Some(resources.clone()), ..LinuxAdjustment::default() };
        let adjustment = Adjustment { linux: Some(linux), ..Adjustment::default() };
        let (mut adjusted, mut updated) = (before.clone(), before);
        let told = adjust(&mut adjusted, &adjustment, &Host::default()).unwrap();
        assert_eq!((&adjusted["linux"]["resources"]["unified"], &told.overridden[..]), (&expected, overridden));
        let told = update(&mut updated, resources, &Host::default()).unwrap();
        assert_eq!((&updated["linux"]["resources"]["unified"], &told.overridden[..]), (&expected, overridden));
    }

    #[test]
    fn a_field_counts_before_a_file_that_the_spec_has() {
        let mut asked = Resources::default();
        asked.memory_mut().limit = Some(50);
        // The kubelet's limit of swap stays, because no field sets another one.
        check_both(&asked, json!({"memory.swap.max": "0", "memory.min": "7", "pids.max": "9"}), &[]);
        asked.memory_mut().swap = Some(60);
        asked.limit_pids(5);
        check_both(&asked, json!({"memory.min": "7"}), &[]);
        let mut nothing = Resources::default();
        nothing.memory_mut().limit = Some(0);
        let all = json!({"memory.max": "100", "memory.swap.max": "0", "memory.min": "7", "pids.max": "9"});
        check_both(&nothing, all, &[]);
    }

    #[test]
    fn of_a_field_and_its_file_the_file_counts_and_the_field_is_told() {
        let mut asked = unified("memory.max");
        asked.memory_mut().limit = Some(50);
        let expected = json!({"memory.max": "max", "memory.swap.max": "0", "memory.min": "7", "pids.max": "9"});
        check_both(&asked, expected, &[Field::MemLimit]);
    }
}
