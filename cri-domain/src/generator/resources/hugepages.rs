use std::collections::HashMap;

use nri_proto::{Field, HugepageLimit};

use crate::generator::document::{self, Object, new_object, text};
use crate::generator::{ApplyReport, Host, SpecError, check};

/// Adjusts limits of huge pages. On a machine without huge pages, all such limits are removed from
/// the spec, because runtimes could not set them.
pub(super) fn adjust(
    spec: &mut Object,
    limits: &[HugepageLimit],
    host: &Host,
    adjusted: &mut ApplyReport,
) -> Result<(), SpecError> {
    let mut places: Option<HashMap<String, usize>> = None;
    for HugepageLimit { page_size, limit, unknown: _ } in limits {
        check::field(Field::HugepageLimits, page_size).require(is_size(page_size), "this is not a size such as 2MB")?;
        let list = document::list(spec, &["linux", "resources", "hugepageLimits"])?;
        let places = places.get_or_insert_with(|| {
            let sizes = list.iter().enumerate().rev();
            sizes.filter_map(|(at, known)| Some((text(known, "pageSize")?.to_owned(), at))).collect()
        });
        match places.get(page_size) {
            Some(&at) => list[at]["limit"] = (*limit).into(),
            None => {
                places.insert(page_size.clone(), list.len());
                list.push(new_object([("pageSize", page_size.as_str().into()), ("limit", (*limit).into())]));
            }
        }
    }
    if !host.hugetlb {
        document::unset(spec, &["linux", "resources"], "hugepageLimits")?;
        if !limits.is_empty() {
            adjusted.ignored.push(Field::HugepageLimits);
        }
    }
    Ok(())
}

fn is_size(size: &str) -> bool {
    let number = ["KB", "MB", "GB"].iter().find_map(|unit| size.strip_suffix(unit));
    number.is_some_and(|number| number.parse::<u32>().is_ok_and(|number| number > 0) && !number.starts_with(['+', '0']))
}

#[cfg(test)]
mod tests {
    use nri_proto::{Adjustment, LinuxAdjustment, Resources};
    use serde_json::json;

    use super::*;
    use crate::generator::adjust;
    use crate::generator::testing::{check_linux, check_linux_refused};

    fn with(limits: &[(&str, u64)]) -> LinuxAdjustment {
        let limit = |(size, limit): &(&str, u64)| HugepageLimit {
            page_size: (*size).to_owned(),
            limit: *limit,
            ..Default::default()
        };
        let resources = Resources { hugepage_limits: limits.iter().map(limit).collect(), ..Resources::default() };
        LinuxAdjustment { resources: Some(resources), ..LinuxAdjustment::default() }
    }

    fn spec(limits: serde_json::Value) -> serde_json::Value {
        json!({"linux": {"resources": {"hugepageLimits": limits}}})
    }

    #[test]
    fn a_limit_is_replaced_by_its_size() {
        check_linux(
            spec(json!([{"pageSize": "2MB", "limit": 1}, {"pageSize": "1GB", "limit": 1}])),
            |it| *it = with(&[("2MB", u64::MAX), ("64KB", 0)]),
            spec(json!([
                {"pageSize": "2MB", "limit": u64::MAX}, {"pageSize": "1GB", "limit": 1}, {"pageSize": "64KB", "limit": 0},
            ])),
        );
    }

    #[test]
    fn a_size_is_a_number_and_a_unit() {
        for size in ["", "MB", "0MB", "2M", "2 MB", "+2MB", "-2MB", "2TB"] {
            let named = if size.is_empty() { String::new() } else { format!(" {size:?}") };
            let expected = format!("HugepageLimits{named}: this is not a size such as 2MB");
            check_linux_refused(|it| *it = with(&[(size, 1)]), &expected);
        }
    }

    #[test]
    fn where_there_are_no_huge_pages_they_are_not_limited() {
        let host = Host { hugetlb: false, ..Host::default() };
        let mut spec = spec(json!([{"pageSize": "1GB", "limit": 1}]));
        let adjustment = Adjustment { linux: Some(with(&[("2MB", 1)])), ..Adjustment::default() };
        let adjusted = adjust(&mut spec, &adjustment, &host).unwrap();
        assert_eq!(adjusted.ignored, [Field::HugepageLimits]);
        assert_eq!(spec, json!({"linux": {"resources": {}}}));
    }
}
