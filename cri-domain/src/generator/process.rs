//! Adjusts single values of the process: arguments, cgroup, OOM score, I/O priority and scheduler.

use nri_proto::{Args, Field, IoPriority, IoPriorityClass, Scheduler, SchedulerFlag, SchedulerPolicy};
use serde_json::Value;

use super::document::{self, Object, new_object};
use super::{Host, SpecError, check};

const PROCESS: [&str; 1] = ["process"];

/// Sets the arguments. If a plugin only removed the arguments of another plugin, those of the spec
/// stay.
pub(super) fn adjust_args(spec: &mut Object, args: &Args) -> Result<(), SpecError> {
    let Some(args) = args.change().and_then(nri_proto::Change::into_value) else { return Ok(()) };
    check::field(Field::Args, "").texts(args)?;
    document::set(spec, &PROCESS, "args", args)
}

/// Sets the cgroup: a path, or `slice:prefix:name` with systemd.
pub(super) fn adjust_cgroup(spec: &mut Object, path: &str, host: &Host) -> Result<(), SpecError> {
    if path.is_empty() {
        return Ok(());
    }
    let checked = check::field(Field::CgroupsPath, "");
    checked.text(path)?;
    checked.require(path.split(['/', ':']).all(|part| part != ".."), "the path contains `..`")?;
    if let Some(may_be_in) = &host.cgroup {
        may_be_in(path).map_err(|source| SpecError::host(Field::CgroupsPath, "", source))?;
    }
    document::set(spec, &["linux"], "cgroupsPath", path)
}

pub(super) fn adjust_oom_score(spec: &mut Object, score: Option<i64>) -> Result<(), SpecError> {
    let Some(score) = score else { return Ok(()) };
    check::field(Field::OomScoreAdj, "").within(&score, &(-1000..=1000), "it is not between -1000 and 1000")?;
    document::set(spec, &PROCESS, "oomScoreAdj", score)
}

/// Sets the I/O priority. The class `None` removes it, so that the runtime decides.
pub(super) fn adjust_io_priority(spec: &mut Object, priority: &IoPriority) -> Result<(), SpecError> {
    let IoPriority { class, priority, unknown: _ } = priority;
    let checked = check::field(Field::IoPriority, "");
    let class = match class {
        IoPriorityClass::None => return document::unset(spec, &PROCESS, "ioPriority"),
        IoPriorityClass::RealTime => "IOPRIO_CLASS_RT",
        IoPriorityClass::BestEffort => "IOPRIO_CLASS_BE",
        IoPriorityClass::Idle => "IOPRIO_CLASS_IDLE",
        IoPriorityClass::Unnamed(_) => return Err(checked.refuse("the class is unknown")),
    };
    checked.within(priority, &(0..=7), "the priority is not between 0 and 7")?;
    let priority = new_object([("class", class.into()), ("priority", (*priority).into())]);
    document::set(spec, &PROCESS, "ioPriority", priority)
}

/// Sets the scheduler. The policy `None` removes it, so that the runtime decides.
pub(super) fn adjust_scheduler(spec: &mut Object, scheduler: &Scheduler) -> Result<(), SpecError> {
    let Scheduler { policy, nice, priority, flags, runtime, deadline, period, unknown: _ } = scheduler;
    let checked = check::field(Field::LinuxSched, "");
    let policy = match policy {
        SchedulerPolicy::None => return document::unset(spec, &PROCESS, "scheduler"),
        SchedulerPolicy::Other => "SCHED_OTHER",
        SchedulerPolicy::Fifo => "SCHED_FIFO",
        SchedulerPolicy::RoundRobin => "SCHED_RR",
        SchedulerPolicy::Batch => "SCHED_BATCH",
        SchedulerPolicy::Iso => "SCHED_ISO",
        SchedulerPolicy::Idle => "SCHED_IDLE",
        SchedulerPolicy::Deadline => "SCHED_DEADLINE",
        SchedulerPolicy::Unnamed(_) => return Err(checked.refuse("the policy is unknown")),
    };
    checked.within(nice, &(-20..=19), "the nice value is not between -20 and 19")?;
    checked.within(priority, &(0..=99), "the priority is not between 0 and 99")?;
    let flags =
        flags.iter().map(|flag| flag_name(*flag).map(Value::from).ok_or_else(|| checked.refuse("a flag is unknown")));
    let flags = flags.collect::<Result<Vec<_>, _>>()?;
    let or_none = |number: Value| if number == 0 { Value::Null } else { number };
    let scheduler = new_object([
        ("policy", policy.into()),
        ("nice", or_none((*nice).into())),
        ("priority", or_none((*priority).into())),
        ("flags", flags.into()),
        ("runtime", or_none((*runtime).into())),
        ("deadline", or_none((*deadline).into())),
        ("period", or_none((*period).into())),
    ]);
    document::set(spec, &PROCESS, "scheduler", scheduler)
}

fn flag_name(flag: SchedulerFlag) -> Option<&'static str> {
    Some(match flag {
        SchedulerFlag::ResetOnFork => "SCHED_FLAG_RESET_ON_FORK",
        SchedulerFlag::Reclaim => "SCHED_FLAG_RECLAIM",
        SchedulerFlag::DeadlineOverrun => "SCHED_FLAG_DL_OVERRUN",
        SchedulerFlag::KeepPolicy => "SCHED_FLAG_KEEP_POLICY",
        SchedulerFlag::KeepParams => "SCHED_FLAG_KEEP_PARAMS",
        SchedulerFlag::UtilClampMin => "SCHED_FLAG_UTIL_CLAMP_MIN",
        SchedulerFlag::UtilClampMax => "SCHED_FLAG_UTIL_CLAMP_MAX",
        SchedulerFlag::Unnamed(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{check, check_linux, check_linux_refused, check_refused};
    use super::*;

    #[test]
    fn arguments_are_set_or_stay() {
        let spec = json!({"process": {"args": ["sh"], "cwd": "/"}});
        let args = |args| move |it: &mut nri_proto::Adjustment| it.args = args;
        let expected = json!({"process": {"args": ["nice", "sh"], "cwd": "/"}});
        check(spec.clone(), args(Args::set(["nice", "sh"]).unwrap()), expected.clone());
        check(spec.clone(), args(Args::replace(["nice", "sh"])), expected);
        check(spec.clone(), args(Args::replace(Vec::<String>::new())), spec.clone());
        check(spec.clone(), args(Args::default()), spec);
        check_refused(args(Args::replace(["a\0"])), "Args: the text contains a NUL");
    }

    #[test]
    fn a_cgroup_is_a_path_or_systemds_and_does_not_climb() {
        for path in ["/kubepods/pod1/c", "kubepods.slice:cri:c"] {
            check_linux(json!({}), |it| it.cgroups_path = path.to_owned(), json!({"linux": {"cgroupsPath": path}}));
        }
        for path in ["/../../..", "/a/..", "..:cri:c"] {
            check_linux_refused(|it| it.cgroups_path = path.to_owned(), "CgroupsPath: the path contains `..`");
        }
    }

    #[test]
    fn a_score_is_between_its_bounds() {
        check_linux(json!({}), |it| it.oom_score_adj = Some(-1000), json!({"process": {"oomScoreAdj": -1000}}));
        for score in [1001, -1001, 1 << 40] {
            let expected = "OomScoreAdj: it is not between -1000 and 1000";
            check_linux_refused(|it| it.oom_score_adj = Some(score), expected);
        }
    }

    #[test]
    fn an_io_priority_is_set_or_cleared() {
        let spec = json!({"process": {"ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 1}, "cwd": "/"}});
        let with = |class, priority| {
            move |it: &mut nri_proto::LinuxAdjustment| {
                it.io_priority = Some(IoPriority { class, priority, ..IoPriority::default() });
            }
        };
        let expected = json!({"process": {"ioPriority": {"class": "IOPRIO_CLASS_RT", "priority": 0}, "cwd": "/"}});
        check_linux(spec.clone(), with(IoPriorityClass::RealTime, 0), expected);
        check_linux(spec, with(IoPriorityClass::None, 3), json!({"process": {"cwd": "/"}}));
        check_linux_refused(with(IoPriorityClass::Idle, 8), "IoPriority: the priority is not between 0 and 7");
    }

    #[test]
    fn a_scheduler_is_set_or_cleared() {
        let spec = json!({"process": {"scheduler": {"policy": "SCHED_BATCH"}}});
        let with = |scheduler| move |it: &mut nri_proto::LinuxAdjustment| it.scheduler = Some(scheduler);
        let scheduler = Scheduler {
            policy: SchedulerPolicy::Deadline,
            flags: vec![SchedulerFlag::ResetOnFork, SchedulerFlag::DeadlineOverrun],
            runtime: 1,
            period: 3,
            ..Scheduler::default()
        };
        let expected = json!({"process": {"scheduler": {
            "policy": "SCHED_DEADLINE",
            "flags": ["SCHED_FLAG_RESET_ON_FORK", "SCHED_FLAG_DL_OVERRUN"],
            "runtime": 1,
            "period": 3,
        }}});
        check_linux(spec.clone(), with(scheduler), expected);
        check_linux(spec, with(Scheduler::default()), json!({"process": {}}));
        let nice = Scheduler { policy: SchedulerPolicy::Other, nice: 20, ..Scheduler::default() };
        check_linux_refused(with(nice), "LinuxSched: the nice value is not between -20 and 19");
    }
}
