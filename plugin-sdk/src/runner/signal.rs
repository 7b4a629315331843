use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Waits until someone asks this process to end: SIGTERM or SIGINT.
///
/// # Errors
///
/// The signals cannot be watched.
pub async fn stop_signal() -> io::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
