//! The results of an initialization: a value for other plugins, and contributions to the shim.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use ttrpc::r#async::Service;

use crate::server::Interceptor;
use crate::server::task::{self, Task};

/// The limit of a shutdown hook, unless the plugin sets another one.
pub const DEFAULT_HOOK_LIMIT: Duration = Duration::from_secs(5);

/// The result of a successful initialization: a value for other plugins, and contributions to the
/// shim.
pub struct Provided<T: ?Sized> {
    pub(crate) value: Arc<T>,
    pub(crate) contributions: Contributions,
}

/// The contributions of a plugin to the shim.
#[derive(Default)]
pub(crate) struct Contributions {
    pub(crate) services: Vec<(String, Service)>,
    pub(crate) interceptors: Vec<Arc<dyn Interceptor>>,
    pub(crate) debug: Vec<DebugEndpoint>,
    pub(crate) hooks: Vec<ShutdownHook>,
    pub(crate) exports: BTreeMap<String, String>,
    #[cfg(feature = "grpc")]
    pub(crate) grpc: crate::server::grpc::GrpcContributions,
}

/// A report about a plugin for diagnostics.
pub(crate) struct DebugEndpoint {
    pub(crate) name: String,
    pub(crate) report: Box<dyn Fn() -> String + Send + Sync>,
}

/// A function that a plugin runs when the shim ends.
pub(crate) struct ShutdownHook {
    pub(crate) limit: Duration,
    pub(crate) run: Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send + Sync>,
}

impl<T: ?Sized> Provided<T> {
    /// Creates the result of an initialization, with the value that other plugins receive.
    pub fn new(value: Arc<T>) -> Self {
        Self { value, contributions: Contributions::default() }
    }

    /// Serves ttrpc services, as a generated `create_…` function returns them.
    #[must_use]
    pub fn service(mut self, services: HashMap<String, Service>) -> Self {
        self.contributions.services.extend(services);
        self
    }

    /// Serves the Task service of containerd, under the names of versions 2 and 3.
    #[must_use]
    pub fn task(self, task: Arc<dyn Task + Send + Sync>) -> Self {
        self.service(task::services(task))
    }

    /// Serves services over gRPC on the socket of the shim: see [`grpc`](crate::grpc).
    ///
    /// The unary methods of ttrpc services are available over gRPC without this.
    #[cfg(feature = "grpc")]
    #[must_use]
    pub fn grpc(mut self, services: crate::server::grpc::Services) -> Self {
        self.contributions.grpc.services.extend(services);
        self
    }

    /// Serves services over gRPC on a loopback TCP address: see [`grpc`](crate::grpc).
    ///
    /// Any process of this machine can connect. The plugin fails to load if the address of the
    /// listener is not a loopback address.
    #[cfg(feature = "grpc")]
    #[must_use]
    pub fn tcp(mut self, listener: std::net::TcpListener, services: crate::server::grpc::Services) -> Self {
        self.contributions.grpc.tcp.push(crate::server::grpc::TcpServices { listener, services, from_anywhere: false });
        self
    }

    /// Serves services over gRPC on any TCP address, without authentication and without encryption.
    #[cfg(feature = "grpc")]
    #[must_use]
    pub fn tcp_from_anywhere(
        mut self,
        listener: std::net::TcpListener,
        services: crate::server::grpc::Services,
    ) -> Self {
        self.contributions.grpc.tcp.push(crate::server::grpc::TcpServices { listener, services, from_anywhere: true });
        self
    }

    /// Intercepts the calls of all unary methods of the shim. Interceptors run in the order of
    /// loading.
    #[must_use]
    pub fn interceptor(mut self, interceptor: Arc<dyn Interceptor>) -> Self {
        self.contributions.interceptors.push(interceptor);
        self
    }

    /// Adds a report to the diagnostics, which SIGUSR1 logs and the debug socket sends.
    #[must_use]
    pub fn debug(mut self, name: impl Into<String>, report: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.contributions.debug.push(DebugEndpoint { name: name.into(), report: Box::new(report) });
        self
    }

    /// Adds a hook that runs when the shim ends, within [`DEFAULT_HOOK_LIMIT`].
    ///
    /// Plugins end in the reverse order of loading, and the hooks of one plugin in the reverse
    /// order of these calls.
    #[must_use]
    pub fn on_shutdown<F>(self, hook: impl FnOnce() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.on_shutdown_within(DEFAULT_HOOK_LIMIT, hook)
    }

    /// Adds a hook that runs when the shim ends, within a limit of its own.
    #[must_use]
    pub fn on_shutdown_within<F>(mut self, limit: Duration, hook: impl FnOnce() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.contributions.hooks.push(ShutdownHook { limit, run: Box::new(move || Box::pin(hook())) });
        self
    }

    /// Exports a fact about the plugin, which the diagnostics show.
    #[must_use]
    pub fn export(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.contributions.exports.insert(key.into(), value.into());
        self
    }
}
