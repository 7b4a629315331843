//! A real adaptation with fake plugins, on a clock that stands still.

mod callers;
mod ends;
mod fake;
mod joins;
mod lanes;
mod policies;
mod schedules;
mod silence;
