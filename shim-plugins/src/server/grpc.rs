//! Services over gRPC, on the socket of the shim and over TCP.
//!
//! With the feature `grpc` the socket of a shim speaks both protocols: who begins as HTTP/2 does is answered in gRPC, everybody
//! else in ttrpc. All unary methods of the ttrpc services are there over gRPC too, without a word from their plugins. What a
//! plugin has besides, made by `tonic` for example, it contributes with [`Provided::grpc`](crate::Provided::grpc).
//!
//! TCP is apart. Nobody can tell there who calls, and a container in the network of the host reaches the loopback as well. So a
//! plugin says which of its [`Services`] are to be had at which address, with [`Provided::tcp`](crate::Provided::tcp), and
//! nothing else is there: Task least of all. An address that other machines reach takes a word more,
//! [`Provided::tcp_from_anywhere`](crate::Provided::tcp_from_anywhere).
//!
//! ```
//! # use std::collections::HashMap;
//! # fn create_hello() -> HashMap<String, shim_plugins::ttrpc::r#async::Service> { HashMap::new() }
//! use std::net::TcpListener;
//! use std::sync::Arc;
//!
//! use shim_plugins::grpc::Services;
//! use shim_plugins::{Plugin, Provided, Slot};
//!
//! const HELLO: Slot<()> = Slot::new("io.containerd.grpc.v1", "hello");
//!
//! fn plugin() -> Plugin {
//!     Plugin::at(HELLO).init(|_, ()| async {
//!         let services = Services::new().ttrpc(create_hello());
//!         Ok(Provided::new(Arc::new(())).tcp(TcpListener::bind("127.0.0.1:0")?, services))
//!     })
//! }
//! # assert_eq!(plugin().uri().to_string(), "io.containerd.grpc.v1.hello");
//! ```
//!
//! What is promised of ttrpc holds here: a method that panics is answered with INTERNAL, what is not there with UNIMPLEMENTED,
//! a call comes to its end though its caller goes away, and the end of the shim does not wait for one that never ends.
//! Connections, calls on one of them, the size of a head and of a message to a ttrpc method are limited. The size of a message to
//! a service of `tonic` is limited by `tonic`, to the same unless its author says otherwise.
//!
//! `start` never tells containerd to speak gRPC: 2.3.7 and 2.4.2 connect, and then take the shim for dead. This is for other
//! callers, who find the address where containerd does.
//!
//! Not here: TLS; the streams of ttrpc services; interceptors before services of `tonic`, which have layers of their own.

mod body;
mod bridge;
pub(crate) mod connections;
mod router;
mod sniff;
mod timeout;

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::TcpListener;
use std::sync::Arc;

use futures_util::future::BoxFuture;
pub use tonic;
use tonic::body::Body;
use tonic::server::NamedService;
use ttrpc::r#async::Service;

#[cfg(any(test, feature = "testing"))]
pub(crate) use self::bridge::RawCodec;
pub(crate) use self::connections::Connections;
pub(crate) use self::router::{GrpcRouter, Methods};
pub(crate) use self::sniff::divert_grpc;

/// How long a message to a ttrpc method may be, over either protocol.
pub(crate) const MAX_MESSAGE: usize = 4 << 20;

/// Services to be had over gRPC.
#[derive(Default)]
pub struct Services {
    pub(crate) routes: Vec<(String, Route)>,
    pub(crate) ttrpc: Vec<(String, Service)>,
}

impl Services {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a service that speaks gRPC: what `tonic` generates.
    #[must_use]
    pub fn service<S>(mut self, service: S) -> Self
    where
        S: tower_service::Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
        S: NamedService + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        self.routes.push((S::NAME.to_owned(), Route::new(service)));
        self
    }

    /// Adds the unary methods of ttrpc services: what a generated `create_…` function returns.
    #[must_use]
    pub fn ttrpc(mut self, services: HashMap<String, Service>) -> Self {
        self.ttrpc.extend(services);
        self
    }

    pub(crate) fn extend(&mut self, more: Self) {
        let Self { routes, ttrpc } = more;
        self.routes.extend(routes);
        self.ttrpc.extend(ttrpc);
    }
}

/// A service, its type forgotten.
#[derive(Clone)]
pub(crate) struct Route(Arc<RouteFn>);

type RouteFn = dyn Fn(http::Request<Body>) -> BoxFuture<'static, http::Response<Body>> + Send + Sync;

impl Route {
    fn new<S>(service: S) -> Self
    where
        S: tower_service::Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        Self(Arc::new(move |request| {
            let mut service = service.clone();
            Box::pin(async move {
                let Ok(()) = poll_fn(|context| service.poll_ready(context)).await;
                let Ok(response) = service.call(request).await;
                response
            })
        }))
    }

    fn call(&self, request: http::Request<Body>) -> BoxFuture<'static, http::Response<Body>> {
        (self.0)(request)
    }
}

/// What a plugin contributes.
#[derive(Default)]
pub(crate) struct GrpcContributions {
    /// On the socket of the shim.
    pub(crate) services: Services,
    pub(crate) tcp: Vec<TcpServices>,
}

/// Services at an address of their own.
pub(crate) struct TcpServices {
    pub(crate) listener: TcpListener,
    pub(crate) services: Services,
    pub(crate) from_anywhere: bool,
}
