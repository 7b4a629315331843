//! A plugin against a runtime that is in the test's hands, over a pipe in memory.

mod callbacks;
mod events;
mod fake;
mod faults;
mod reconnecting;
mod registering;
mod stopping;
mod synchronizing;
