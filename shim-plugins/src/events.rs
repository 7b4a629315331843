//! Publishes events to containerd.
//!
//! - `publisher`: the service that plugins publish with, and the task that sends the events.
//! - `event_queue`: the events that wait to be sent, bounded in bytes.
//! - `event`: the events of a task, each with its topic and type name.

mod event;
mod event_queue;
mod publisher;

pub use event::{
    Event, TaskCheckpointed, TaskCreate, TaskDelete, TaskExecAdded, TaskExecStarted, TaskExit, TaskOOM, TaskPaused,
    TaskResumed, TaskStart,
};
pub use event_queue::PublishError;
pub(crate) use publisher::EventSender;
pub use publisher::{PUBLISHER, Publisher};

#[cfg(test)]
mod tests;
