//! Where plugins connect.

use std::sync::Arc;

use nri_proto::quote::error_line;
use tokio::sync::Semaphore;
use tracing::warn;

use crate::connection::connect;
use crate::shared::Shared;
use crate::socket::Socket;

/// Lets peers in until the adaptation stops, each in a task of its own: a silent one holds up no other.
pub(crate) async fn listen(shared: Arc<Shared>, socket: Socket) {
    let strangers = Arc::new(Semaphore::new(shared.config.max_unregistered));
    loop {
        let (stream, peer) = tokio::select! {
            biased;
            () = shared.stopping.cancelled() => return,
            accepted = socket.accept() => accepted,
        };
        if !peer.is_allowed(&shared.config.allowed_uids) {
            warn!(uid = peer.uid, pid = peer.pid, "refusing a peer: its user is not allowed to be a plugin");
            continue;
        }
        let Ok(place) = Arc::clone(&strangers).try_acquire_owned() else {
            warn!(uid = peer.uid, pid = peer.pid, "refusing a peer: too many have not registered yet");
            continue;
        };
        let shared_by_peer = Arc::clone(&shared);
        shared.spawn(async move {
            if let Err(error) = connect(shared_by_peer, stream).await {
                warn!(error = %error_line(&error), pid = peer.pid, "a peer did not become a plugin");
            }
            drop(place);
        });
    }
}
