//! The scheduling of processes.

use super::{Unknown, Unnamed};

/// The scheduling of a container's process, as in sched_setattr(2). Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scheduler {
    /// The scheduling policy.
    pub policy: SchedulerPolicy,
    /// The nice value, from -20 to 19.
    pub nice: i32,
    /// The static priority, for real-time policies.
    pub priority: i32,
    /// The flags.
    pub flags: Vec<SchedulerFlag>,
    /// The CPU time per period, for [`SchedulerPolicy::Deadline`].
    pub runtime: u64,
    /// The time from the start of a period until its deadline, for [`SchedulerPolicy::Deadline`].
    pub deadline: u64,
    /// The length of a period, for [`SchedulerPolicy::Deadline`].
    pub period: u64,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

/// The policy of a [`Scheduler`], as in sched(7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SchedulerPolicy {
    /// No policy is set.
    #[default]
    None,
    /// `SCHED_OTHER`: the policy of ordinary processes.
    Other,
    /// `SCHED_FIFO`: real time, first in, first out.
    Fifo,
    /// `SCHED_RR`: real time, round robin.
    RoundRobin,
    /// `SCHED_BATCH`: for CPU-intensive batch processes.
    Batch,
    /// `SCHED_ISO`: reserved by the kernel.
    Iso,
    /// `SCHED_IDLE`: only while no other process wants to run.
    Idle,
    /// `SCHED_DEADLINE`: a CPU time in each period, before a deadline.
    Deadline,
    /// A policy that this version of the protocol does not know.
    Unnamed(Unnamed<Self>),
}

/// A flag of a [`Scheduler`], as in sched_setattr(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SchedulerFlag {
    /// Child processes get the default policy.
    #[default]
    ResetOnFork,
    /// The process may use time that other deadline processes do not use.
    Reclaim,
    /// The process gets a signal when it exceeds its CPU time.
    DeadlineOverrun,
    /// The policy is not changed.
    KeepPolicy,
    /// The parameters are not changed.
    KeepParams,
    /// The lower bound of the utilization is set.
    UtilClampMin,
    /// The upper bound of the utilization is set.
    UtilClampMax,
    /// A flag that this version of the protocol does not know.
    Unnamed(Unnamed<Self>),
}
