//! Reads, checks and shows single values of a configuration file.

pub(crate) mod duration;
mod place;
mod problem;
mod section;
mod setting;

pub(crate) use self::place::KeyPath;
pub use self::problem::{Fault, Problem};
pub(crate) use self::section::{Section, nearest};
pub(crate) use self::setting::{Choice, Setting};
