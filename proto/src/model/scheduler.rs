use super::{Unknown, Unnamed};

/// How a container's process is scheduled. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scheduler {
    /// The policy.
    pub policy: SchedulerPolicy,
    /// How nice it is to others, from -20 to 19.
    pub nice: i32,
    /// The static priority, for real-time policies.
    pub priority: i32,
    /// What else is asked for.
    pub flags: Vec<SchedulerFlag>,
    /// The CPU time it needs per period, for [`SchedulerPolicy::Deadline`].
    pub runtime: u64,
    /// The time from the start of a period by which it needs it.
    pub deadline: u64,
    /// The length of a period.
    pub period: u64,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

/// The policy of a [`Scheduler`], as sched(7) describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SchedulerPolicy {
    /// None is set.
    #[default]
    None,
    /// `SCHED_OTHER`: the policy of ordinary processes.
    Other,
    /// `SCHED_FIFO`: real time, until it yields.
    Fifo,
    /// `SCHED_RR`: real time, in turn.
    RoundRobin,
    /// `SCHED_BATCH`: ordinary, and known to compute.
    Batch,
    /// `SCHED_ISO`: reserved by the kernel.
    Iso,
    /// `SCHED_IDLE`: if nobody else wants to run.
    Idle,
    /// `SCHED_DEADLINE`: a runtime in each period, by a deadline.
    Deadline,
    /// A policy that we do not know yet.
    Unnamed(Unnamed<Self>),
}

/// A flag of a [`Scheduler`], as sched_setattr(2) describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SchedulerFlag {
    /// Children get the default policy.
    #[default]
    ResetOnFork,
    /// It may use time that other deadline processes leave.
    Reclaim,
    /// It is told when it exceeds its runtime.
    DeadlineOverrun,
    /// The policy stays as it is.
    KeepPolicy,
    /// The parameters stay as they are.
    KeepParams,
    /// The lower bound of its utilisation is set.
    UtilClampMin,
    /// The upper bound of its utilisation is set.
    UtilClampMax,
    /// A flag that we do not know yet.
    Unnamed(Unnamed<Self>),
}
