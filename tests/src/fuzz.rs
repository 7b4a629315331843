//! The fuzz targets: what they do with their input.
//!
//! Each target is a plain function, so that it runs in two places: under libFuzzer (`make fuzz`,
//! in `tests/fuzz`), and in an ordinary test that replays the corpus and some random inputs
//! (`tests/it/fuzz.rs`). A target panics if a promise is broken.

mod bootstrap;
mod calls;
mod configs;
mod faulty;
mod frames;
mod generates;
mod graph;
mod merges;
mod muxes;
mod peers;
mod script;
mod serving;

use std::time::Duration;

pub use bootstrap::bootstrap;
pub use calls::calls;
pub use configs::configs;
pub use frames::frames;
pub use generates::generates;
pub use graph::graph;
pub use merges::merges;
pub use muxes::muxes;
pub use peers::peers;
pub use serving::serving;

/// A fuzz target.
pub type Target = fn(&[u8]);

/// All targets, by their names in `tests/fuzz`.
pub const TARGETS: [(&str, Target); 10] = [
    ("frames", frames),
    ("muxes", muxes),
    ("calls", calls),
    ("serving", serving),
    ("peers", peers),
    ("merges", merges),
    ("generates", generates),
    ("bootstrap", bootstrap),
    ("graph", graph),
    ("configs", configs),
];

/// Runs a story with paused time, and checks that it ends and leaves no task behind.
fn story(story: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O can always be had");
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(3600), story).await.expect("the story hangs");
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(runtime.metrics().num_alive_tasks(), 0, "a task is left");
    });
}
