//! Stories that run in one process.
