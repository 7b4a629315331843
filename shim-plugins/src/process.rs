//! The processes of a shim: its own end, its children, and how a container ended.
//!
//! - `clock`: the time of day, for events and answers.
//! - `shutdown`: the service that ends the shim.
//! - `reaper`: starts, adopts and awaits child processes. `orphans`: finds dead orphans.
//! - `exit_record`: the exit of a container, stored in its bundle. `bundle_file`: files in a
//!   bundle.

pub(crate) mod bundle_file;
mod clock;
mod exit_record;
mod orphans;
mod reaper;
mod shutdown;

pub use clock::Clock;
pub use exit_record::ExitRecord;
pub use reaper::{Exit, Pid, Process, REAPER, Reaper, Signal};
pub use shutdown::{SHUTDOWN, Shutdown};

#[cfg(test)]
#[path = "../../tests/memory/own_process.rs"]
mod own_process;
#[cfg(test)]
mod tests;
