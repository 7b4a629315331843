//! Stories that run in one process.

mod fuzz;
