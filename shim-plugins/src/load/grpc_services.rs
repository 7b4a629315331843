//! What all plugins of a shim contribute.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use ttrpc::r#async::Service;

use crate::graph::Uri;
use crate::plugin::InitFailure;
use crate::server::call::CallGuard;
use crate::server::grpc::connections::{self, Connections};
use crate::server::grpc::{GrpcContributions, GrpcRouter, Methods, Route, Services, TcpServices};

/// What all plugins of a shim contribute.
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

    /// Looks for what is wrong with what a plugin contributes.
    pub(crate) fn check(&self, uri: &Uri, contribution: &GrpcContributions) -> Result<(), InitFailure> {
        let GrpcContributions { services, tcp } = contribution;
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

    /// Takes over what a plugin contributes.
    pub(crate) fn add(&mut self, uri: &Uri, contribution: GrpcContributions) {
        let GrpcContributions { services: Services { routes, ttrpc }, tcp } = contribution;
        self.routes.extend(routes.into_iter().map(|(name, route)| (name, (uri.clone(), route))));
        self.ttrpc.extend(ttrpc.into_iter().map(|(name, service)| (name, (uri.clone(), service))));
        self.tcp.extend(tcp);
    }

    /// Begins to serve over TCP, and returns what is served on the socket of the shim, where `methods` are too.
    pub(crate) fn serve(
        self,
        guard: &CallGuard,
        mut methods: Methods,
        until: &CancellationToken,
    ) -> io::Result<(Connections, Arc<GrpcRouter>)> {
        let Self { routes, ttrpc, tcp } = self;
        let connections = Connections::new(connections::MAX_CONNECTIONS);
        for TcpServices { listener, services: Services { routes, ttrpc }, from_anywhere: _ } in tcp {
            let methods = ttrpc.into_iter().map(|(name, service)| (name, guard.methods(service))).collect();
            let router = GrpcRouter { guard: guard.clone(), routes: routes.into_iter().collect(), methods };
            connections.accept(connections::adopt(listener)?, Arc::new(router), until.clone());
        }
        methods.extend(ttrpc.into_iter().map(|(name, (_, service))| (name, guard.methods(service))));
        let routes = routes.into_iter().map(|(name, (_, route))| (name, route)).collect();
        Ok((connections, Arc::new(GrpcRouter { guard: guard.clone(), routes, methods })))
    }
}

/// Looks for a service that is there twice.
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
