//! Connections that speak gRPC.

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

/// How many connections there may be at once, from all sides.
pub(crate) const MAX_CONNECTIONS: usize = 256;

/// How many calls there may be at once on a connection.
const MAX_CALLS: u32 = 256;

/// How long the head of a call may be.
const MAX_HEAD: u32 = 16 << 10;

/// How much of one call may be on its way.
const WINDOW: u32 = 256 << 10;

/// How long a connection has to close at the end.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// How often a peer over TCP is asked whether it is still there, and how long it has to say so.
const ASK_PAUSE: Duration = Duration::from_secs(60);
const ASK_LIMIT: Duration = Duration::from_secs(20);

/// How long to wait after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// All connections of a shim that speak gRPC.
#[derive(Clone)]
pub(crate) struct Connections {
    free: Arc<Semaphore>,
    running: TaskTracker,
    over: CancellationToken,
}

impl Connections {
    /// None yet, and never more than so many at once.
    pub(crate) fn new(limit: usize) -> Self {
        let free = Arc::new(Semaphore::new(limit));
        Self { free, running: TaskTracker::new(), over: CancellationToken::new() }
    }

    /// Serves who is connected over a socket of this machine: when it goes, we hear of it.
    pub(super) fn serve(&self, stream: tokio::net::UnixStream, router: &Arc<GrpcRouter>) {
        let (router, over) = (Arc::clone(router), self.over.clone());
        self.spawn(async move { connection(stream, router, builder(), over).await });
    }

    /// Serves who comes over TCP, until nobody is accepted any more.
    pub(crate) fn accept(&self, listener: TcpListener, router: Arc<GrpcRouter>, until: CancellationToken) {
        let connections = self.clone();
        self.running.spawn(async move {
            while let Some(accepted) = until.run_until_cancelled(listener.accept()).await {
                match accepted {
                    Ok((stream, _)) => connections.greet(stream, &router),
                    Err(error) => {
                        debug!(%error, "could not accept a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        });
    }

    fn greet(&self, stream: tokio::net::TcpStream, router: &Arc<GrpcRouter>) {
        let (router, over) = (Arc::clone(router), self.over.clone());
        self.spawn(async move {
            let protocol = over.run_until_cancelled(sniff::detect_over_tcp(&stream)).await;
            if !matches!(protocol, Some(Protocol::Grpc)) {
                return debug!("closed a connection that does not speak gRPC");
            }
            let mut builder = builder();
            builder.timer(TokioTimer::new()).keep_alive_interval(ASK_PAUSE).keep_alive_timeout(ASK_LIMIT);
            connection(stream, router, builder, over).await;
        });
    }

    fn spawn(&self, connection: impl Future<Output = ()> + Send + 'static) {
        let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() else {
            return warn!("refused a connection: there are too many that speak gRPC");
        };
        self.running.spawn(async move {
            connection.await;
            drop(permit);
        });
    }

    /// Closes the connections, when what was said on them has left.
    pub(crate) async fn close(&self) {
        self.over.cancel();
        self.running.close();
        self.running.wait().await;
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.max_concurrent_streams(MAX_CALLS).max_header_list_size(MAX_HEAD).initial_stream_window_size(WINDOW);
    builder
}

async fn connection<S>(stream: S, router: Arc<GrpcRouter>, builder: Builder<TokioExecutor>, over: CancellationToken)
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
        () = over.cancelled() => {
            serving.as_mut().graceful_shutdown();
            tokio::time::timeout(CLOSE_LIMIT, serving).await
        }
    };
    match served {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "a connection ended"),
        Err(_) => debug!("not waiting for a connection any longer"),
    }
}

/// Makes a listener one of the runtime that this is called in.
pub(crate) fn adopt(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tonic::Code;

    use super::*;
    use crate::server::call::CallGuard;
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
