//! Text: how strings are quoted, shortened and spelled.

pub mod quote;
pub mod spelling;
