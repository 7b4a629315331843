//! The events of a task, as containerd defines them.

pub use containerd_shim_protos::events::task::{
    TaskCheckpointed, TaskCreate, TaskDelete, TaskExecAdded, TaskExecStarted, TaskExit, TaskOOM, TaskPaused,
    TaskResumed, TaskStart,
};
use containerd_shim_protos::topics;

/// An event that containerd knows, with its topic and its type name.
pub trait Event: protobuf::Message {
    /// The topic under which the event is published.
    const TOPIC: &'static str;
    /// The name of the event's type in containerd.
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
