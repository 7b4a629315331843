//! Counts the memory that a peer can make us allocate.
//!
//! Everything that the process allocates is counted, so each test has a process of its own and a
//! runtime with one thread.

#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests, and what they share")]

mod adaptation;
mod call;
mod ledger;
mod merge;
mod mux;
mod own_process;

use std::alloc::System;
use std::time::Duration;

use nri_proto::mux::ChannelId;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use crate::own_process::in_own_process;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Runs a whole test in a process of its own.
fn alone(story: impl Future<Output = ()>) {
    in_own_process(story, |story| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), story).await.expect("the test hangs") });
    });
}

/// Counts allocations from its creation on.
struct Count(Region<'static, System>);

impl Count {
    fn begin() -> Self {
        Self(Region::new(ALLOCATOR))
    }

    /// Returns how many bytes were allocated, including those that were freed.
    fn allocated(&self) -> usize {
        self.0.change().bytes_allocated
    }

    /// Returns how many of the allocated bytes are not freed.
    fn held(&self) -> usize {
        let change = self.0.change();
        change.bytes_allocated.saturating_sub(change.bytes_deallocated)
    }
}

/// Returns the header of a frame that claims this length.
fn header(channel: ChannelId, length: u32) -> [u8; 8] {
    nri_proto::mux::header(channel, length)
}
