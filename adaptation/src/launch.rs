//! Plugins that the runtime starts itself: the programs in a directory, as long as they are there.
//!
//! - `directory.rs` lists the programs, `watcher.rs` lists them again and again, `changes.rs`
//!   compares two lists.
//! - `supervisor.rs` keeps one program running, with a pause between runs (`backoff.rs`);
//!   `replacement.rs` chooses the newest of the programs of one name.
//! - `instance.rs` is one run of it: a process (`process.rs`), its configuration (`drop_in.rs`),
//!   what it writes (`output.rs`). What reads from the disk goes through `disk.rs`, which waits in
//!   time.
//! - `trust.rs` checks, before each start, that others cannot change what is executed or read.

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

/// Launches what is in the directory, and looks after it until the adaptation stops. Returns when
/// each plugin that is there now has joined, or has failed to for the first time.
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
    // Nothing is sent: each that still tries for the first time has a sender.
    let _ = all_tried.recv().await;
    Ok(())
}

/// One attempt to launch plugins. If nothing comes of it, for whatever reason, there may be
/// another.
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
