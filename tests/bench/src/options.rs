//! The command line.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::pairs::{Pairs, number};

pub(crate) const USAGE: &str = "\
usage: relay-bench [merge | generate] [options]

  merge           instead of relaying, merge replies in one process, for 1, 3, 10 and 30 plugins
  generate        instead of relaying, apply an adjustment to an OCI spec

  --peers DIR     where benchruntime, benchplugin, merger and generator are (tests/interop/peers/bin/v0.12.5)
  --only LIST     which cases, of those below (all)
  --plugins LIST  how many plugins are asked in the case `empty`, one comparison each (1,3,10)
  --rounds N      rounds per comparison of times; in each, both work twice, and noisy ones are repeated (12)
  --scale N       how long a turn is, and how many containers `memory` creates, in percent (100)
  --realtime PRIO run everything that is measured with this real-time priority (needs root)
  --baseline FILE another build of bench-runtime in place of Go's, to compare the two
  --write FILE    also replace the figures in FILE

  empty           StartContainer and CreateContainer, empty answers, one caller
  adjust          CreateContainer, 3 plugins that adjust as plugins typically do, one caller
  crowd           16 callers and slow plugins: how many requests get done
  beside          StartContainer while others wait for a slow subscriber of CreateContainer
  joining         a plugin that comes behind a silent client, or behind one that stopped to read
  memory          resident memory with 30 plugins after 5000 creations

The exit status is 1 when a bar is not met; the last lines then say which. To merge, the bars are 0.35 of Go's p50, and that a
plugin among thirty costs at most 1.5 of one among ten; to generate, it is 0.5 of Go's p50 from text to text.
";

/// The role in which the program runs.
#[derive(Debug)]
pub(crate) enum Face {
    Help,
    Awake,
    Compare(Options),
    CompareMerge(Options),
    CompareGenerate(Options),
}

/// The comparison to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    Empty,
    Adjust,
    Crowd,
    Beside,
    Joining,
    Memory,
}

impl Case {
    const ALL: [(&'static str, Self); 6] = [
        ("empty", Self::Empty),
        ("adjust", Self::Adjust),
        ("crowd", Self::Crowd),
        ("beside", Self::Beside),
        ("joining", Self::Joining),
        ("memory", Self::Memory),
    ];

    fn parse(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, case)| case).with_context(|| format!("{name:?} is no case\n\n{USAGE}"))
    }
}

/// The options of a comparison.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) peers: PathBuf,
    pub(crate) only: Vec<Case>,
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
            only: Case::ALL.map(|(_, case)| case).to_vec(),
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
            Some("awake") => Ok(Self::Awake),
            Some("--help" | "-h") => Ok(Self::Help),
            Some("merge") => Ok(Self::CompareMerge(Options::parse(args.skip(1))?)),
            Some("generate") => Ok(Self::CompareGenerate(Options::parse(args.skip(1))?)),
            _ => Ok(Self::Compare(Options::parse(args)?)),
        }
    }
}

impl Options {
    fn parse(args: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self::default();
        for pair in Pairs(args) {
            let (option, value) = pair?;
            match option.as_str() {
                "--peers" => options.peers = value.into(),
                "--only" => options.only = value.split(',').map(Case::parse).collect::<Result<_>>()?,
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
