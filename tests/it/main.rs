//! Stories that run in one process, and what must be true of the workspace itself.

mod layers;
mod tidy;
mod workspace;
