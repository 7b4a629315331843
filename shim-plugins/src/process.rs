//! The processes of a shim: its own end, its children, and the record of how a container ended.
//!
//! - `clock`: the time of day.
//! - `shutdown`: the service that ends the shim.
//! - `reaper`: waits for processes and collects orphans.
//! - `exit_record`, `bundle_file`: the exit of a container, stored in its bundle.

pub(crate) mod bundle_file;
mod clock;
mod exit_record;
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
