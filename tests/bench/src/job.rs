//! What a runtime is told to do. Both ends of its line know it.

use std::str::FromStr;

use anyhow::{Result, bail};

/// What is asked.
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

/// What is to be measured: `n` requests by so many callers, each with a pod of its own, while
/// others (`beside`) do nothing but create containers. Requests are made in chunks before they are
/// relayed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) op: Op,
    pub(crate) n: usize,
    pub(crate) chunk: usize,
    pub(crate) callers: usize,
    pub(crate) beside: usize,
}
