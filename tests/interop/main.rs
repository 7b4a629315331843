//! What we say beside what Go says.

mod schema;
mod texts;
