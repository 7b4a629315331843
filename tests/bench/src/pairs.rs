//! Options on a command line.

use std::str::FromStr;

use anyhow::{Context, Result};

pub(crate) fn number<T: FromStr>(text: &str) -> Result<T> {
    text.parse().ok().with_context(|| format!("{text:?} is not a number that will do"))
}

/// Options, each with its value.
pub(crate) struct Pairs<I>(pub(crate) I);

impl<I: Iterator<Item = String>> Iterator for Pairs<I> {
    type Item = Result<(String, String)>;

    fn next(&mut self) -> Option<Self::Item> {
        let option = self.0.next()?;
        let value = self.0.next().with_context(|| format!("{option} wants a value"));
        Some(value.map(|value| (option, value)))
    }
}
