//! The events of a task.

pub use containerd_shim_protos::events::task::{
    TaskCheckpointed, TaskCreate, TaskDelete, TaskExecAdded, TaskExecStarted, TaskExit, TaskOOM, TaskPaused,
    TaskResumed, TaskStart,
};
use containerd_shim_protos::topics;

/// An event that containerd knows.
pub trait Event: protobuf::Message {
    /// Where it is published.
    const TOPIC: &'static str;
    /// What containerd calls its type.
    const TYPE: &'static str;
}

macro_rules! events {
    ($($event:ident $topic:ident)*) => {$(
        impl Event for $event {
            const TOPIC: &'static str = topics::$topic;
            const TYPE: &'static str = concat!("containerd.events.", stringify!($event));
        }
    )*};
}

events! {
    TaskCreate TASK_CREATE_EVENT_TOPIC
    TaskStart TASK_START_EVENT_TOPIC
    TaskExit TASK_EXIT_EVENT_TOPIC
    TaskDelete TASK_DELETE_EVENT_TOPIC
    TaskOOM TASK_OOM_EVENT_TOPIC
    TaskExecAdded TASK_EXEC_ADDED_EVENT_TOPIC
    TaskExecStarted TASK_EXEC_STARTED_EVENT_TOPIC
    TaskPaused TASK_PAUSED_EVENT_TOPIC
    TaskResumed TASK_RESUMED_EVENT_TOPIC
    TaskCheckpointed TASK_CHECKPOINTED_EVENT_TOPIC
}
