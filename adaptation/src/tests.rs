//! A real adaptation with fake plugins, on a clock that stands still.

mod adjusting;
mod budgets;
mod callers;
mod ends;
mod failures;
mod fake;
mod joins;
mod journals;
mod lanes;
mod model;
mod operators;
mod overdue;
mod policies;
mod readiness;
mod reloads;
mod schedules;
mod setting;
mod silence;
mod subscriptions;
mod takeover;
mod undoing;
mod validating;
mod verdicts;
mod waiting;
mod watching;
