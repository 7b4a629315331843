//! One line of the table: a figure and its bar.

use std::fmt::{self, Display, Formatter};

/// One figure.
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) go: String,
    pub(crate) rust: String,
    pub(crate) found: Found,
    pub(crate) bar: Bar,
    /// How many of the rounds were quiet.
    pub(crate) quiet: String,
}

/// The value that is compared with the bar.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    Ratio(f64),
    Milliseconds(f64),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Bar {
    AtMost(f64),
    AtLeast(f64),
}

impl Found {
    fn with(self, value: f64) -> Self {
        match self {
            Self::Ratio(_) => Self::Ratio(value),
            Self::Milliseconds(_) => Self::Milliseconds(value),
        }
    }
}

impl Row {
    pub(crate) fn meets_bar(&self) -> bool {
        let (Found::Ratio(found) | Found::Milliseconds(found)) = self.found;
        match self.bar {
            Bar::AtMost(most) => found <= most,
            Bar::AtLeast(least) => found >= least,
        }
    }
}

impl Display for Found {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ratio(ratio) => write!(f, "{ratio:.2}"),
            Self::Milliseconds(time) => write!(f, "{time:.0} ms"),
        }
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { what, go, rust, found, bar, quiet } = self;
        let met = if self.meets_bar() { "met" } else { "**missed**" };
        let (side, value) = match bar {
            Bar::AtMost(most) => ("≤", *most),
            Bar::AtLeast(least) => ("≥", *least),
        };
        write!(f, "| {what} | {go} | {rust} | {found} | {side} {} | {met} | {quiet} |", found.with(value))
    }
}
