//! Conversions of scheduler settings.

use protobuf::EnumOrUnknown;

use super::{Translate, message, numbers};
use crate::model::{Scheduler, SchedulerFlag, SchedulerPolicy, Unnamed};
use crate::schema::api;

message! {
    LinuxScheduler as Scheduler { policy, nice, priority, flags, runtime, deadline, period }, encode
}

numbers! {
    api::LinuxSchedulerPolicy as SchedulerPolicy {
        SCHED_NONE as None,
        SCHED_OTHER as Other,
        SCHED_FIFO as Fifo,
        SCHED_RR as RoundRobin,
        SCHED_BATCH as Batch,
        SCHED_ISO as Iso,
        SCHED_IDLE as Idle,
        SCHED_DEADLINE as Deadline,
    }
}

numbers! {
    api::LinuxSchedulerFlag as SchedulerFlag {
        SCHED_FLAG_RESET_ON_FORK as ResetOnFork,
        SCHED_FLAG_RECLAIM as Reclaim,
        SCHED_FLAG_DL_OVERRUN as DeadlineOverrun,
        SCHED_FLAG_KEEP_POLICY as KeepPolicy,
        SCHED_FLAG_KEEP_PARAMS as KeepParams,
        SCHED_FLAG_UTIL_CLAMP_MIN as UtilClampMin,
        SCHED_FLAG_UTIL_CLAMP_MAX as UtilClampMax,
    }
}
