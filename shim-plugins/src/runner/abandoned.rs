//! Detects that a server is no longer needed: its bundle is gone, and no client is connected.
//!
//! A daemon that restarts leaves the bundles. The bundle goes when the container was removed, or
//! when `start` was killed after the server had its confirmation, and before containerd had the
//! address.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::sync::watch;

use crate::server::Containers;

/// How long a server whose bundle is gone stays without a connection on which something came.
const LIMIT: Duration = Duration::from_secs(60);

/// The limit of a server to which no client has ever connected. Containerd connects as soon as it
/// has the address, so such a server has an address that containerd never got.
const FIRST_LIMIT: Duration = Duration::from_secs(10);

/// The pause between looks at a bundle that was still there at the limit.
const PAUSE: Duration = Duration::from_secs(10);

/// Waits until the bundle of the shim and those of all its containers are gone, and no client was
/// connected for a while.
pub(super) async fn abandoned(bundle: &Path, containers: &Containers, mut attendance: watch::Receiver<usize>) {
    let mut limit = FIRST_LIMIT;
    loop {
        let connected = *attendance.borrow_and_update() > 0;
        if connected {
            limit = LIMIT;
        }
        let wait = if connected { Duration::MAX } else { limit };
        match tokio::time::timeout(wait, attendance.changed()).await {
            // A client has connected or left, or both.
            Ok(Ok(())) => limit = LIMIT,
            // The server is gone.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) if is_gone(bundle) && containers.all_gone(is_gone) => return,
            Err(_) => limit = PAUSE,
        }
    }
}

fn is_gone(bundle: &Path) -> bool {
    std::fs::symlink_metadata(bundle).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}
