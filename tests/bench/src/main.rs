//! Measures what relaying to Go plugins costs: this implementation beside Go's own, in one run.
//!
//! `relay-bench` is the controller. It starts two runtimes that do the same, Go's adaptation
//! (`tests/interop/peers/cmd/benchruntime`) and ours (`bench-runtime`), each with as many Go
//! plugins of its own, and lets them work by turns, so that whatever else the machine does hits
//! both. Start reading in [`compare`], which has the cases; `adaptation` is what is measured.
//! `relay-bench merge` does the same for [`merge`], and `relay-bench generate` for the spec
//! generator ([`generate`]).

mod awake;
mod beside;
mod builtin;
mod compare;
mod crowd;
mod generate;
mod id;
mod job;
mod joining;
mod latency;
mod memory;
mod merge;
mod middle;
mod noise;
mod options;
mod page;
mod pairs;
mod payload;
mod process;
mod report;
mod rounds;
mod row;
mod sample;

use std::process::ExitCode;

use anyhow::Result;
use mimalloc::MiMalloc;

use self::options::Face;

/// The one that our programs use.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> Result<ExitCode> {
    match Face::parse(std::env::args().skip(1))? {
        Face::Help => {
            page::say(options::USAGE)?;
            Ok(ExitCode::SUCCESS)
        }
        Face::Awake => {
            awake::stay()?;
            Ok(ExitCode::SUCCESS)
        }
        Face::CompareMerge(options) => {
            let (rows, met) = merge::compare(&options)?;
            report::publish_merge(&merge::table(&rows), options.write.as_deref())?;
            Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Face::CompareGenerate(options) => {
            let (rows, bytes, met) = generate::compare(&options)?;
            report::publish_generate(&generate::table(&rows, bytes), options.write.as_deref())?;
            Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Face::Compare(options) => {
            let comparison = compare::compare(&options)?;
            report::publish(&comparison, options.write.as_deref())?;
            Ok(if comparison.missed().next().is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}
