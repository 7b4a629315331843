//! The gRPC connections of a shim: accepting, serving and closing them.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::GrpcRouter;
use super::sniff::{self, Protocol};
use crate::server::CountedStream;

/// The most gRPC connections at once, over all sockets.
const MAX_CONNECTIONS: usize = 256;

/// The most concurrent calls on one connection.
const MAX_CALLS: u32 = 256;

/// The largest header list of a call, in bytes.
const MAX_HEAD: u32 = 16 << 10;

/// The flow control window of one call, in bytes.
const WINDOW: u32 = 256 << 10;

/// How long a connection may take to close when the shim ends.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// The interval of HTTP/2 pings on a TCP connection, and how long the peer may take to answer.
const PING_INTERVAL: Duration = Duration::from_secs(60);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// The pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// All gRPC connections of a shim. Clones share them.
#[derive(Clone)]
pub(crate) struct Connections {
    free: Arc<Semaphore>,
    running: TaskTracker,
    closing: CancellationToken,
}

impl Default for Connections {
    fn default() -> Self {
        Self::new(MAX_CONNECTIONS)
    }
}

impl Connections {
    /// Creates the set of connections, limited to `limit` at once.
    fn new(limit: usize) -> Self {
        let free = Arc::new(Semaphore::new(limit));
        Self { free, running: TaskTracker::new(), closing: CancellationToken::new() }
    }

    /// Serves a connection of the shim's Unix socket. It needs no pings: the kernel reports when
    /// the peer is gone.
    pub(super) fn serve(&self, stream: CountedStream, router: &Arc<GrpcRouter>) {
        let (router, closing) = (Arc::clone(router), self.closing.clone());
        self.spawn(async move { connection(stream, router, builder(), closing).await });
    }

    /// Accepts and serves TCP connections until `until` is cancelled.
    pub(crate) fn accept(&self, listener: TcpListener, router: Arc<GrpcRouter>, until: CancellationToken) {
        let connections = self.clone();
        self.running.spawn(async move {
            while let Some(accepted) = until.run_until_cancelled(listener.accept()).await {
                match accepted {
                    Ok((stream, _)) => connections.serve_tcp(stream, &router),
                    Err(error) => {
                        debug!(%error, "could not accept a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        });
    }

    fn serve_tcp(&self, stream: tokio::net::TcpStream, router: &Arc<GrpcRouter>) {
        let (router, closing) = (Arc::clone(router), self.closing.clone());
        self.spawn(async move {
            let protocol = closing.run_until_cancelled(sniff::detect_over_tcp(&stream)).await;
            if !matches!(protocol, Some(Protocol::Grpc)) {
                return debug!("closed a TCP connection that does not speak gRPC");
            }
            let mut builder = builder();
            builder.timer(TokioTimer::new()).keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_TIMEOUT);
            connection(stream, router, builder, closing).await;
        });
    }

    fn spawn(&self, connection: impl Future<Output = ()> + Send + 'static) {
        let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() else {
            return warn!("refused a gRPC connection: too many connections");
        };
        self.running.spawn(async move {
            connection.await;
            drop(permit);
        });
    }

    /// Closes the connections after all responses have been sent.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        self.running.close();
        self.running.wait().await;
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.max_concurrent_streams(MAX_CALLS).max_header_list_size(MAX_HEAD).initial_stream_window_size(WINDOW);
    builder
}

async fn connection<S>(stream: S, router: Arc<GrpcRouter>, builder: Builder<TokioExecutor>, closing: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let router = Arc::clone(&router);
        async move { Ok::<_, Infallible>(router.answer(request).await) }
    });
    let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let served = tokio::select! {
        served = &mut serving => Ok(served),
        () = closing.cancelled() => {
            serving.as_mut().graceful_shutdown();
            tokio::time::timeout(CLOSE_LIMIT, serving).await
        }
    };
    match served {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "gRPC connection failed"),
        Err(_) => debug!("gRPC connection did not close in time"),
    }
}

/// Registers a listener with the current Tokio runtime.
pub(crate) fn adopt(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tonic::Code;

    use super::*;
    use crate::server::CallGuard;
    use crate::server::task::api::Empty;
    use crate::testing::GrpcClient;

    #[tokio::test]
    async fn there_are_never_more_connections_than_the_limit_and_room_for_another_when_one_goes() {
        let guard = CallGuard::new(Arc::new([]), CancellationToken::new());
        let router = Arc::new(GrpcRouter { guard, routes: BTreeMap::new(), methods: BTreeMap::new() });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, until) = (Connections::new(2), CancellationToken::new());
        connections.accept(listener, router, until.clone());
        let ask =
            async |client: &GrpcClient| client.call::<_, Empty>("x.Y", "Z", &Empty::new()).await.unwrap_err().code();

        let first = GrpcClient::over_tcp(address).await.unwrap();
        let second = GrpcClient::over_tcp(address).await.unwrap();
        assert_eq!((ask(&first).await, ask(&second).await), (Code::Unimplemented, Code::Unimplemented));
        let third = GrpcClient::over_tcp(address).await;
        assert!(third.is_err() || ask(&third.unwrap()).await != Code::Unimplemented);
        drop(second);
        let again = async {
            loop {
                if let Ok(client) = GrpcClient::over_tcp(address).await
                    && ask(&client).await == Code::Unimplemented
                {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), again).await.unwrap();

        until.cancel();
        tokio::time::timeout(CLOSE_LIMIT * 5, connections.close()).await.unwrap();
        assert_ne!(ask(&first).await, Code::Unimplemented, "it is closed");
    }
}
