//! The jobs of a runtime, as the controller sends them and the runtime reads them.

use std::str::FromStr;

use anyhow::{Result, bail};

/// The kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Start,
    Create,
}

impl Op {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Start => "StartContainer",
            Self::Create => "CreateContainer",
        }
    }
}

impl FromStr for Op {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        match [Self::Start, Self::Create].into_iter().find(|op| op.name() == name) {
            Some(op) => Ok(op),
            None => bail!("{name} is not measured"),
        }
    }
}

/// A measurement: `n` requests by several callers, each with a pod of its own, while other callers
/// (`beside`) only create containers. Requests are prepared in chunks before they are relayed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) op: Op,
    pub(crate) n: usize,
    pub(crate) chunk: usize,
    pub(crate) callers: usize,
    pub(crate) beside: usize,
}
