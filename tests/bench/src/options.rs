//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

pub(crate) const USAGE: &str = "\
usage: relay-bench [merge] [options]

  merge           instead of relaying, merge replies in one process, for 1, 3, 10 and 30 plugins

  --peers DIR     where benchruntime, benchplugin and merger are (tests/interop/peers/bin/v0.12.5)
  --plugins LIST  how many plugins are asked, one comparison each (1,3,10)
  --rounds N      rounds per comparison; in each, both work twice, and noisy ones are repeated (12)
  --scale N       how long a turn is, in percent (100)
  --realtime PRIO run everything that is measured with this real-time priority (needs root)
  --baseline FILE another build of relay-bench in place of Go's runtime, to compare the two
  --write FILE    also replace the figures in FILE

The exit status is 1 when Rust costs more than 0.35 of the CPU or takes more than 0.75 of the p50; to merge, when it takes
more than 0.35 of the p50, or when a plugin among thirty costs more than 1.5 of one among ten.
";

/// What the program is this time.
#[derive(Debug)]
pub(crate) enum Face {
    Help,
    Relay { socket: PathBuf, request: PathBuf },
    Compare(Options),
    CompareMerge(Options),
}

/// How to compare.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) peers: PathBuf,
    pub(crate) plugins: Vec<usize>,
    pub(crate) rounds: usize,
    pub(crate) scale: usize,
    pub(crate) realtime: Option<u8>,
    pub(crate) baseline: Option<PathBuf>,
    pub(crate) write: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            peers: "tests/interop/peers/bin/v0.12.5".into(),
            plugins: vec![1, 3, 10],
            rounds: 12,
            scale: 100,
            realtime: None,
            baseline: None,
            write: None,
        }
    }
}

impl Face {
    pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut args = args.into_iter().peekable();
        match args.peek().map(String::as_str) {
            Some("relay") => Self::relay(args.skip(1)),
            Some("--help" | "-h") => Ok(Self::Help),
            Some("merge") => Ok(Self::CompareMerge(Options::parse(args.skip(1))?)),
            _ => Ok(Self::Compare(Options::parse(args)?)),
        }
    }

    fn relay(args: impl Iterator<Item = String>) -> Result<Self> {
        let (mut socket, mut request) = (None, None);
        for pair in Pairs(args) {
            let (option, value) = pair?;
            match option.as_str() {
                "-socket" => socket = Some(value.into()),
                "-request" => request = Some(value.into()),
                _ => bail!("{option} is no option of relay"),
            }
        }
        Ok(Self::Relay {
            socket: socket.context("-socket is missing")?,
            request: request.context("-request is missing")?,
        })
    }
}

impl Options {
    fn parse(args: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self::default();
        for pair in Pairs(args) {
            let (option, value) = pair?;
            match option.as_str() {
                "--peers" => options.peers = value.into(),
                "--plugins" => options.plugins = value.split(',').map(number).collect::<Result<_>>()?,
                "--rounds" => options.rounds = number(&value)?,
                "--scale" => options.scale = number(&value)?,
                "--realtime" => options.realtime = Some(number(&value)?),
                "--baseline" => options.baseline = Some(value.into()),
                "--write" => options.write = Some(value.into()),
                _ => bail!("{option} is no option\n\n{USAGE}"),
            }
        }
        Ok(options)
    }
}

fn number<T: FromStr>(text: &str) -> Result<T> {
    text.parse().ok().with_context(|| format!("{text:?} is not a number that will do"))
}

/// Options, each with its value.
struct Pairs<I>(I);

impl<I: Iterator<Item = String>> Iterator for Pairs<I> {
    type Item = Result<(String, String)>;

    fn next(&mut self) -> Option<Self::Item> {
        let option = self.0.next()?;
        let value = self.0.next().with_context(|| format!("{option} wants a value"));
        Some(value.map(|value| (option, value)))
    }
}
