//! The end of a shim, as its plugins see it.

use tokio_util::sync::CancellationToken;

use crate::graph::Slot;

/// The slot of the [`Shutdown`] service. The runner fills it.
pub const SHUTDOWN: Slot<Shutdown> = Slot::new("io.containerd.internal.v1", "shutdown");

/// Ends the shim, and tells when it ends.
///
/// A Task service asks for it when containerd calls `Shutdown` and no container is left. What a plugin wants to do then,
/// it says with [`Provided::on_shutdown`](crate::Provided::on_shutdown).
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    requested: CancellationToken,
}

impl Shutdown {
    /// Ends the shim, once; the calls that are being answered are answered first.
    pub fn request(&self) {
        self.requested.cancel();
    }

    /// Whether the shim ends.
    pub fn is_requested(&self) -> bool {
        self.requested.is_cancelled()
    }

    /// Waits until the shim ends.
    pub async fn requested(&self) {
        self.requested.cancelled().await;
    }

    /// A token that is cancelled when the shim ends.
    pub fn token(&self) -> CancellationToken {
        self.requested.child_token()
    }
}
