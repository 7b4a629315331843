//! The command line of our runtime.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::pairs::{Pairs, number};

/// The options of our runtime.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) socket: PathBuf,
    /// The file with the encoded request.
    pub(crate) request: PathBuf,
    /// How many containers exist at the start.
    pub(crate) containers: usize,
    /// The plugin that is asked about different pods at the same time.
    pub(crate) per_pod: Option<String>,
}

impl Served {
    pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Self> {
        let (mut socket, mut request, mut containers, mut per_pod) = (None, None, 0, None);
        for pair in Pairs(args) {
            let (option, value) = pair?;
            match option.as_str() {
                "-socket" => socket = Some(value.into()),
                "-request" => request = Some(value.into()),
                "-containers" => containers = number(&value)?,
                "-per-pod" => per_pod = Some(value),
                _ => bail!("{option} is no option"),
            }
        }
        Ok(Self {
            socket: socket.context("-socket is missing")?,
            request: request.context("-request is missing")?,
            containers,
            per_pod,
        })
    }
}
