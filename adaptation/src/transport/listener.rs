//! Accepts the connections of plugins.

use std::sync::Arc;

use tracing::warn;

use crate::operation::shared::Shared;
use crate::transport::connection::connect;
use crate::transport::socket::Socket;
use crate::transport::strangers::Strangers;

/// Accepts peers until the adaptation stops. Each peer has a task of its own, so that a silent peer
/// does not delay others.
pub(crate) async fn listen(shared: Arc<Shared>, socket: Socket) {
    let strangers = Strangers::new(shared.services.config.max_unregistered, &shared.services.config.allowed_uids);
    loop {
        let (stream, peer) = tokio::select! {
            biased;
            () = shared.services.stopping.cancelled() => return,
            accepted = socket.accept() => accepted,
        };
        if !peer.is_allowed(&shared.services.config.allowed_uids) {
            warn!(uid = peer.uid, pid = peer.pid, "peer refused: its user is not in allowed_uids");
            continue;
        }
        let Some(place) = strangers.try_take(peer.uid) else {
            warn!(
                uid = peer.uid,
                pid = peer.pid,
                "peer refused: too many peers of its user have not become plugins yet (max_unregistered)"
            );
            continue;
        };
        let shared_by_peer = Arc::clone(&shared);
        shared.services.spawn(async move {
            if let Err(error) = connect(Arc::clone(&shared_by_peer), stream, peer.uid).await {
                error.log(&shared_by_peer, Some(peer.uid), peer.pid);
            }
            drop(place);
        });
    }
}
