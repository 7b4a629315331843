//! Our runtime in the benchmark, a process of its own as Go's is: what only the controller needs is
//! not in its memory. Start reading in [`adaptation`].

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
    let served = Served::parse(std::env::args().skip(1))?;
    // One thread is enough: relaying is mostly waiting for plugins, and each further thread has a
    // heap and a stack.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(adaptation::serve(&served))?;
    // Standard input may still be read by a thread that cannot be stopped.
    std::process::exit(0);
}
