//! What a plugin gives the shim: its interface for other plugins, and what it contributes to the server.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use ttrpc::r#async::Service;

use crate::server::call::Interceptor;
use crate::server::task::{self, Task};

/// How long a plugin has to end, unless it says otherwise.
pub const DEFAULT_HOOK_LIMIT: Duration = Duration::from_secs(5);

/// What a plugin's initialisation returns.
pub struct Provided<T: ?Sized> {
    pub(crate) value: Arc<T>,
    pub(crate) contributions: Contributions,
}

/// What a plugin contributes to the shim.
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

/// Something that says how a plugin is.
pub(crate) struct DebugEndpoint {
    pub(crate) name: String,
    pub(crate) say: Box<dyn Fn() -> String + Send + Sync>,
}

/// What a plugin does when the shim ends.
pub(crate) struct ShutdownHook {
    pub(crate) limit: Duration,
    pub(crate) run: Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send + Sync>,
}

impl<T: ?Sized> Provided<T> {
    /// What other plugins get.
    pub fn new(value: Arc<T>) -> Self {
        Self { value, contributions: Contributions::default() }
    }

    /// Serves ttrpc services: what a generated `create_…` function returns.
    #[must_use]
    pub fn service(mut self, services: HashMap<String, Service>) -> Self {
        self.contributions.services.extend(services);
        self
    }

    /// Serves containerd's Task service, under the names of versions 2 and 3.
    #[must_use]
    pub fn task(self, task: Arc<dyn Task + Send + Sync>) -> Self {
        self.service(task::services(task))
    }

    /// Serves over gRPC, on the socket of the shim: see [`grpc`](crate::server::grpc). The unary methods of ttrpc services are there
    /// already.
    #[cfg(feature = "grpc")]
    #[must_use]
    pub fn grpc(mut self, services: crate::server::grpc::Services) -> Self {
        self.contributions.grpc.services.extend(services);
        self
    }

    /// Serves over gRPC, to any process of this machine that connects to a loopback address, whoever's it is: see
    /// [`grpc`](crate::server::grpc). The plugin fails if the listener has another address.
    #[cfg(feature = "grpc")]
    #[must_use]
    pub fn tcp(mut self, listener: std::net::TcpListener, services: crate::server::grpc::Services) -> Self {
        self.contributions.grpc.tcp.push(crate::server::grpc::TcpServices { listener, services, from_anywhere: false });
        self
    }

    /// Serves over gRPC, to whoever reaches an address: nobody is asked who they are, and nothing is encrypted.
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

    /// Stands between the server and all its unary methods. The plugin that is loaded first is the outermost.
    #[must_use]
    pub fn interceptor(mut self, interceptor: Arc<dyn Interceptor>) -> Self {
        self.contributions.interceptors.push(interceptor);
        self
    }

    /// Says how the plugin is, when somebody asks with SIGUSR1 or connects to the debug socket.
    #[must_use]
    pub fn debug(mut self, name: impl Into<String>, say: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.contributions.debug.push(DebugEndpoint { name: name.into(), say: Box::new(say) });
        self
    }

    /// Does something when the shim ends, within [`DEFAULT_HOOK_LIMIT`]. Plugins end in the reverse of the order in
    /// which they were loaded, and the hooks of one in the reverse of the order in which they were given.
    #[must_use]
    pub fn on_shutdown<F>(self, hook: impl FnOnce() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.on_shutdown_within(DEFAULT_HOOK_LIMIT, hook)
    }

    /// Does something when the shim ends, within a limit of its own.
    #[must_use]
    pub fn on_shutdown_within<F>(mut self, limit: Duration, hook: impl FnOnce() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.contributions.hooks.push(ShutdownHook { limit, run: Box::new(move || Box::pin(hook())) });
        self
    }

    /// Says something about the plugin to whoever looks at the shim.
    #[must_use]
    pub fn export(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.contributions.exports.insert(key.into(), value.into());
        self
    }
}
