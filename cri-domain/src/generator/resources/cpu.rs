use std::ops::RangeInclusive;

use nri_proto::{Cpu, Field};

use crate::generator::document::{self, Object};
use crate::generator::{SpecError, check};

/// The ranges that the kernel accepts. 0 is accepted, too: runtimes then do not set the value.
const PERIODS: RangeInclusive<u64> = 1_000..=1_000_000;
const SHORTEST_QUOTA: i64 = 1_000;
const SHARES: RangeInclusive<u64> = 2..=262_144;

pub(super) fn adjust(spec: &mut Object, cpu: &Cpu) -> Result<(), SpecError> {
    let Cpu { shares, quota, period, realtime_runtime, realtime_period, cpus, mems, unknown: _ } = cpu;
    for (field, time) in [(Field::CPUQuota, quota), (Field::CPURealtimeRuntime, realtime_runtime)] {
        check::field(field, "").require(time.is_none_or(|time| time >= -1), "the value is less than -1")?;
    }
    let is_long = quota.is_none_or(|quota| !(1..SHORTEST_QUOTA).contains(&quota));
    check::field(Field::CPUQuota, "").require(is_long, "the value is shorter than a millisecond")?;
    for (field, period, shortest) in
        [(Field::CPUPeriod, period, *PERIODS.start()), (Field::CPURealtimePeriod, realtime_period, 1)]
    {
        let period = period.filter(|period| *period != 0);
        check::field(field, "")
            .require(period.is_none_or(|it| it <= *PERIODS.end()), "the value is longer than a second")?;
        check::field(field, "")
            .require(period.is_none_or(|it| it >= shortest), "the value is shorter than a millisecond")?;
    }
    // runc 1.3.2 clamps shares in the same way.
    let shares = shares.map(|shares| if shares == 0 { 0 } else { shares.clamp(*SHARES.start(), *SHARES.end()) });
    let cpus = check::field(Field::CPUSetCPUs, "").number_list(cpus)?;
    let mems = check::field(Field::CPUSetMems, "").number_list(mems)?;
    let members = [
        ("shares", shares.into()),
        ("quota", (*quota).into()),
        ("period", (*period).into()),
        ("realtimeRuntime", (*realtime_runtime).into()),
        ("realtimePeriod", (*realtime_period).into()),
        ("cpus", cpus.into()),
        ("mems", mems.into()),
    ];
    document::set_present(spec, &["linux", "resources", "cpu"], members)
}

#[cfg(test)]
mod tests {
    use nri_proto::{LinuxAdjustment, Resources};
    use serde_json::json;

    use super::*;
    use crate::generator::testing::{check_linux, check_linux_refused};

    fn with(cpu: Cpu) -> impl FnOnce(&mut LinuxAdjustment) {
        |it| it.resources = Some(Resources { cpu: Some(cpu), ..Resources::default() })
    }

    #[test]
    fn what_is_set_changes_and_the_rest_stays() {
        let cpu = Cpu {
            shares: Some(2),
            quota: Some(-1),
            period: Some(100_000),
            realtime_runtime: Some(0),
            realtime_period: Some(1000),
            cpus: "0-3,7".to_owned(),
            mems: "0".to_owned(),
            ..Cpu::default()
        };
        check_linux(
            json!({"linux": {"resources": {"cpu": {"burst": 9, "quota": 5, "idle": 1}}}}),
            with(cpu),
            json!({"linux": {"resources": {"cpu": {
                "burst": 9, "quota": -1, "idle": 1, "shares": 2, "period": 100_000,
                "realtimeRuntime": 0, "realtimePeriod": 1000, "cpus": "0-3,7", "mems": "0",
            }}}}),
        );
        check_linux(json!({}), with(Cpu::default()), json!({}));
    }

    #[test]
    fn values_out_of_range_are_refused() {
        check_linux_refused(with(Cpu { quota: Some(-2), ..Cpu::default() }), "CPUQuota: the value is less than -1");
        let period = Cpu { period: Some(1_000_001), ..Cpu::default() };
        check_linux_refused(with(period), "CPUPeriod: the value is longer than a second");
        let period = Cpu { period: Some(999), ..Cpu::default() };
        check_linux_refused(with(period), "CPUPeriod: the value is shorter than a millisecond");
        check_linux_refused(
            with(Cpu { quota: Some(999), ..Cpu::default() }),
            "CPUQuota: the value is shorter than a millisecond",
        );
    }

    #[test]
    fn shares_that_the_kernel_does_not_take_become_the_nearest_that_it_does() {
        for (shares, expected) in [(1, 2), (2, 2), (262_144, 262_144), (262_145, 262_144), (u64::MAX, 262_144)] {
            let shares = Cpu { shares: Some(shares), ..Cpu::default() };
            let expected = json!({"linux": {"resources": {"cpu": {"shares": expected}}}});
            check_linux(json!({}), with(shares), expected);
        }
    }

    #[test]
    fn a_list_is_written_without_the_white_space_around_it() {
        let lists = Cpu { cpus: " 0-3,7\n".to_owned(), mems: "\t0 ".to_owned(), ..Cpu::default() };
        let expected = json!({"linux": {"resources": {"cpu": {"cpus": "0-3,7", "mems": "0"}}}});
        check_linux(json!({}), with(lists), expected);
    }

    #[test]
    fn nothing_is_what_leaves_it_to_the_kernel() {
        let nothing = Cpu { shares: Some(0), quota: Some(0), period: Some(0), ..Cpu::default() };
        let expected = json!({"linux": {"resources": {"cpu": {"shares": 0, "quota": 0, "period": 0}}}});
        check_linux(json!({}), with(nothing), expected);
    }
}
