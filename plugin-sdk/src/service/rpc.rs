//! The RPCs of the plugin's service, and how the ttRPC server calls them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nri_proto::Event;
use nri_proto::call::Services;
use ttrpc::r#async::{MethodHandler, Service as Methods, TtrpcContext};

use super::Service;

/// The name of the service that plugins provide.
const PLUGIN: &str = "nri.pkg.api.v1alpha1.Plugin";

impl Service {
    /// Returns the service with all its RPCs.
    ///
    /// All RPCs must be present: a runtime detects an older plugin by a missing RPC.
    pub(crate) fn methods(self: &Arc<Self>) -> Services {
        let rpcs = [Rpc::Configure, Rpc::Synchronize, Rpc::Shutdown, Rpc::StateChange].into_iter();
        let methods = rpcs.chain(Event::ALL.into_iter().map(Rpc::Event)).map(|rpc| {
            let handler: Box<dyn MethodHandler + Send + Sync> = Box::new(RpcHandler { rpc, service: Arc::clone(self) });
            (rpc.name().to_owned(), handler)
        });
        let methods = Methods { methods: methods.collect(), streams: Default::default() };
        Services::from([(PLUGIN.to_owned(), methods)])
    }
}

/// An RPC of the plugin's service.
#[derive(Clone, Copy)]
enum Rpc {
    Configure,
    Synchronize,
    Shutdown,
    StateChange,
    Event(Event),
}

impl Rpc {
    /// Returns the name of the RPC on the wire.
    fn name(self) -> &'static str {
        match self {
            Self::Configure => "Configure",
            Self::Synchronize => "Synchronize",
            Self::Shutdown => "Shutdown",
            Self::StateChange => "StateChange",
            Self::Event(event) => event.rpc(),
        }
    }
}

/// The handler of one RPC.
///
/// The generated service is not used, since it decodes messages with any number of entries.
struct RpcHandler {
    rpc: Rpc,
    service: Arc<Service>,
}

#[async_trait]
impl MethodHandler for RpcHandler {
    async fn handler(&self, context: TtrpcContext, request: ttrpc::Request) -> ttrpc::Result<ttrpc::Response> {
        let timeout = u64::try_from(context.timeout_nano).ok().filter(|nanos| *nanos > 0).map(Duration::from_nanos);
        let request = Bytes::from(request.payload);
        let answer = match self.rpc {
            Rpc::Configure => self.service.configure(&request).await,
            Rpc::Synchronize => self.service.synchronize(&request, timeout).await,
            Rpc::Shutdown => self.service.shutdown().await,
            Rpc::StateChange => self.service.state_change(&request, timeout).await,
            Rpc::Event(event) => self.service.event(event, &request, timeout).await,
        }?;
        let mut response = ttrpc::Response::new();
        response.payload = answer.into();
        Ok(response)
    }
}
