use nri_proto::{Field, Resources};

use super::document::{self, Object};
use super::{Adjusted, SpecError, check};
use crate::limits;

const PATH: [&str; 3] = ["linux", "resources", "unified"];

/// Files of cgroups of version 2 are written after all else. So those that are in the spec would hide what a field now says of the same
/// file: they go. If both are said at once the file counts, and the field is told as overridden.
pub(super) fn give_way(spec: &mut Object, resources: &Resources, adjusted: &mut Adjusted) -> Result<(), SpecError> {
    for limits::InFile { field, file, .. } in limits::in_files(resources) {
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
        check_file(file, value)?;
        document::object(spec, &PATH)?.insert(file.clone(), value.clone().into());
    }
    Ok(())
}

/// A file in the container's cgroup, and nowhere else.
fn check_file(file: &str, value: &str) -> Result<(), SpecError> {
    let checked = check::of(Field::CgroupsUnified, file);
    let is_file = !matches!(file, "" | "." | "..") && !file.contains(['/', '\0']);
    checked.holds(is_file, "this is not the name of a file in a cgroup")?;
    checked.text(value)
}

#[cfg(test)]
mod tests {
    use nri_proto::{Adjustment, LinuxAdjustment};
    use serde_json::{Value, json};

    use super::super::testing::{check_linux, check_linux_refused};
    use super::super::{Host, adjust, update};
    use super::*;

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
        for file in ["../memory.high", "..", "a/b"] {
            let expected = format!("CgroupsUnified {file:?}: this is not the name of a file in a cgroup");
            check_linux_refused(with(unified(file)), &expected);
        }
    }

    /// By an adjustment, and by an update.
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
        // What the kubelet says of swap stays: nobody else says anything of it.
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
