//! Launches plugins: runs the programs in the plugin directory for as long as they are there.
//!
//! - `directory.rs` lists the programs, `watcher.rs` lists them periodically, `changes.rs` compares
//!   two listings.
//! - `supervisor.rs` keeps one program running, with a pause between runs (`backoff.rs`). If a
//!   program is replaced, `replacement.rs` makes the older run give way to the newer one.
//! - `instance.rs` is one run of a program: its process (`process.rs`), its configuration
//!   (`drop_in.rs`) and its output (`output.rs`).
//! - `disk.rs` limits the time of operations that read from the disk.
//! - `trust.rs` checks, before each start, that nobody else can change what is executed or read.
//!   `error.rs` has the errors.

mod backoff;
mod changes;
mod directory;
mod disk;
mod drop_in;
mod error;
mod instance;
mod output;
mod process;
mod replacement;
mod supervisor;
mod trust;
mod watcher;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;

pub use self::error::{LaunchError, UntrustedPath};
use self::watcher::Keeper;
use crate::operation::shared::Shared;

/// Launches the plugins in the plugin directory, and keeps them running until the adaptation stops.
/// Returns when each plugin that is in the directory now has joined, or has failed to join for the
/// first time.
pub(crate) async fn launch(shared: &Arc<Shared>, launched: &AtomicBool) -> Result<(), LaunchError> {
    let attempt = Attempt::begin(launched)?;
    let Some(dir) = shared.services.config.plugin_path.clone() else {
        attempt.succeeds();
        return Ok(());
    };
    let (tried, mut all_tried) = mpsc::channel(1);
    let keeper = Keeper::start(Arc::clone(shared), dir, tried).await?;
    shared.services.spawn(keeper.run());
    attempt.succeeds();
    // No message is ever sent. The channel closes when the last plugin has dropped its sender,
    // after its first attempt.
    let _ = all_tried.recv().await;
    Ok(())
}

/// An attempt to launch plugins. If the attempt is dropped without success, another attempt may be
/// made.
struct Attempt<'a>(Option<&'a AtomicBool>);

impl<'a> Attempt<'a> {
    fn begin(launched: &'a AtomicBool) -> Result<Self, LaunchError> {
        if launched.swap(true, Ordering::Relaxed) { Err(LaunchError::Twice) } else { Ok(Self(Some(launched))) }
    }

    fn succeeds(mut self) {
        self.0 = None;
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let Some(launched) = self.0 {
            launched.store(false, Ordering::Relaxed);
        }
    }
}
