//! Events on their way to containerd.
//!
//! - `publisher`: the service that plugins publish with, and the task that sends.
//! - `queue`: the events that wait to be sent, bounded in bytes.
//! - `event`: the events of a task, with topic and type name.

mod event;
mod publisher;
mod queue;

pub use event::{
    Event, TaskCheckpointed, TaskCreate, TaskDelete, TaskExecAdded, TaskExecStarted, TaskExit, TaskOOM, TaskPaused,
    TaskResumed, TaskStart,
};
pub(crate) use publisher::EventSender;
pub use publisher::{PUBLISHER, Publisher};
pub use queue::PublishError;

#[cfg(test)]
mod tests;
