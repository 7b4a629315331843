//! The shutdown service: plugins end the shim with it, and learn when it ends.

use tokio_util::sync::CancellationToken;

use crate::graph::Slot;

/// The slot of the [`Shutdown`] service, which every shim has.
pub const SHUTDOWN: Slot<Shutdown> = Slot::new("io.containerd.internal.v1", "shutdown");

/// Ends the shim, and tells plugins when it ends.
///
/// A Task service requests the shutdown when containerd calls `Shutdown` and no container is left.
/// A plugin registers its own cleanup with [`Provided::on_shutdown`](crate::Provided::on_shutdown).
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    requested: CancellationToken,
}

impl Shutdown {
    /// Requests the end of the shim. Calls in progress are answered first. Idempotent.
    pub fn request(&self) {
        self.requested.cancel();
    }

    /// Returns whether the end of the shim was requested.
    pub fn is_requested(&self) -> bool {
        self.requested.is_cancelled()
    }

    /// Waits until the end of the shim is requested.
    pub async fn requested(&self) {
        self.requested.cancelled().await;
    }

    /// Returns the token that [`Shutdown::request`] cancels.
    pub(crate) fn request_token(&self) -> CancellationToken {
        self.requested.clone()
    }

    /// Returns a token that is cancelled when the end of the shim is requested.
    pub fn token(&self) -> CancellationToken {
        self.requested.child_token()
    }
}
