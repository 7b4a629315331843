//! Our runtime in the benchmark, a process of its own as Go's is: what only the controller needs is not in its memory.
//! Start reading in [`adaptation`].

mod adaptation;
mod id;
mod job;
mod pairs;
mod sample;
mod served;
mod work;

use anyhow::Result;
use mimalloc::MiMalloc;

use self::served::Served;

/// The one that our programs use.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> Result<()> {
    adaptation::serve(&Served::parse(std::env::args().skip(1))?)
}
