//! The services that all plugins of a shim contribute over gRPC.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use ttrpc::r#async::Service;

use crate::graph::Uri;
use crate::plugin::InitFailure;
use crate::server::CallGuard;
use crate::server::grpc::{Connections, GrpcContributions, GrpcRouter, Methods, Route, Services, TcpServices, adopt};

/// The services that all plugins of a shim contribute over gRPC, each with its plugin.
#[derive(Default)]
pub(crate) struct GrpcServices {
    routes: BTreeMap<String, (Uri, Route)>,
    ttrpc: BTreeMap<String, (Uri, Service)>,
    tcp: Vec<TcpServices>,
}

impl GrpcServices {
    pub(crate) fn is_empty(&self) -> bool {
        self.routes.is_empty() && self.ttrpc.is_empty() && self.tcp.is_empty()
    }

    /// Returns whether a plugin contributes a service of this name on the socket of the shim.
    pub(crate) fn serves(&self, service: &str) -> bool {
        self.routes.contains_key(service) || self.ttrpc.contains_key(service)
    }

    /// Checks the contributions of a plugin: service names must be unique at each socket, and a TCP
    /// listener must be on the loopback unless its plugin allows other addresses.
    pub(crate) fn check(&self, uri: &Uri, contributions: &GrpcContributions) -> Result<(), InitFailure> {
        let GrpcContributions { services, tcp } = contributions;
        let known = self.routes.iter().map(|(name, (other, _))| (name, other));
        let known = known.chain(self.ttrpc.iter().map(|(name, (other, _))| (name, other)));
        check_names(uri, services, known.collect())?;
        for TcpServices { listener, services, from_anywhere } in tcp {
            check_names(uri, services, BTreeMap::new())?;
            let address = listener.local_addr().map_err(|error| InitFailure::Returned(error.into()))?;
            if !from_anywhere && !address.ip().is_loopback() {
                return Err(InitFailure::FromAnywhere { address });
            }
        }
        Ok(())
    }

    /// Adds the contributions of a plugin, which must have passed [`GrpcServices::check`].
    pub(crate) fn add(&mut self, uri: &Uri, contributions: GrpcContributions) {
        let GrpcContributions { services: Services { routes, ttrpc }, tcp } = contributions;
        self.routes.extend(routes.into_iter().map(|(name, route)| (name, (uri.clone(), route))));
        self.ttrpc.extend(ttrpc.into_iter().map(|(name, service)| (name, (uri.clone(), service))));
        self.tcp.extend(tcp);
    }

    /// Starts to serve over TCP until `until` is cancelled. Returns the connections, and the router
    /// of the shim's own socket, which also serves `methods`.
    pub(crate) fn serve(
        self,
        guard: &CallGuard,
        mut methods: Methods,
        until: &CancellationToken,
    ) -> io::Result<(Connections, Arc<GrpcRouter>)> {
        let Self { routes, ttrpc, tcp } = self;
        let connections = Connections::default();
        for TcpServices { listener, services: Services { routes, ttrpc }, from_anywhere: _ } in tcp {
            let methods = ttrpc.into_iter().map(|(name, service)| (name, guard.methods(service))).collect();
            let router = GrpcRouter { guard: guard.clone(), routes: routes.into_iter().collect(), methods };
            connections.accept(adopt(listener)?, Arc::new(router), until.clone());
        }
        methods.extend(ttrpc.into_iter().map(|(name, (_, service))| (name, guard.methods(service))));
        let routes = routes.into_iter().map(|(name, (_, route))| (name, route)).collect();
        Ok((connections, Arc::new(GrpcRouter { guard: guard.clone(), routes, methods })))
    }
}

/// Checks that no service of a plugin has the name of another service.
fn check_names(uri: &Uri, services: &Services, known: BTreeMap<&String, &Uri>) -> Result<(), InitFailure> {
    let mut own = BTreeSet::new();
    let names = services.routes.iter().map(|(name, _)| name).chain(services.ttrpc.iter().map(|(name, _)| name));
    for name in names {
        let other = known.get(name).copied().or_else(|| (!own.insert(name)).then_some(uri));
        if let Some(other) = other {
            return Err(InitFailure::DuplicateService { service: name.clone(), other: other.clone() });
        }
    }
    Ok(())
}
