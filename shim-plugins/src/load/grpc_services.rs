//! What all plugins of a shim contribute.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use ttrpc::r#async::Service;

use crate::graph::Uri;
use crate::plugin::FailedInit;
use crate::server::call::Guard;
use crate::server::grpc::connections::{self, Connections};
use crate::server::grpc::{Answers, Contribution, Methods, Route, Services, Tcp};

/// What all plugins of a shim contribute.
#[derive(Default)]
pub(crate) struct Offers {
    routes: BTreeMap<String, (Uri, Route)>,
    ttrpc: BTreeMap<String, (Uri, Service)>,
    tcp: Vec<Tcp>,
}

impl Offers {
    pub(crate) fn is_empty(&self) -> bool {
        self.routes.is_empty() && self.ttrpc.is_empty() && self.tcp.is_empty()
    }

    /// Looks for what is wrong with what a plugin contributes.
    pub(crate) fn check(&self, uri: &Uri, contribution: &Contribution) -> Result<(), FailedInit> {
        let Contribution { services, tcp } = contribution;
        let known = self.routes.iter().map(|(name, (other, _))| (name, other));
        let known = known.chain(self.ttrpc.iter().map(|(name, (other, _))| (name, other)));
        check_names(uri, services, known.collect())?;
        for Tcp { listener, services, from_anywhere } in tcp {
            check_names(uri, services, BTreeMap::new())?;
            let address = listener.local_addr().map_err(|error| FailedInit::Returned(error.into()))?;
            if !from_anywhere && !address.ip().is_loopback() {
                return Err(FailedInit::FromAnywhere { address });
            }
        }
        Ok(())
    }

    /// Takes over what a plugin contributes.
    pub(crate) fn add(&mut self, uri: &Uri, contribution: Contribution) {
        let Contribution { services: Services { routes, ttrpc }, tcp } = contribution;
        self.routes.extend(routes.into_iter().map(|(name, route)| (name, (uri.clone(), route))));
        self.ttrpc.extend(ttrpc.into_iter().map(|(name, service)| (name, (uri.clone(), service))));
        self.tcp.extend(tcp);
    }

    /// Begins to serve over TCP, and returns what is served on the socket of the shim, where `methods` are too.
    pub(crate) fn serve(
        self,
        guard: &Guard,
        mut methods: Methods,
        until: &CancellationToken,
    ) -> io::Result<(Connections, Arc<Answers>)> {
        let Self { routes, ttrpc, tcp } = self;
        let connections = Connections::new(connections::MAX_CONNECTIONS);
        for Tcp { listener, services: Services { routes, ttrpc }, from_anywhere: _ } in tcp {
            let methods = ttrpc.into_iter().map(|(name, service)| (name, guard.methods(service))).collect();
            let answers = Answers { guard: guard.clone(), routes: routes.into_iter().collect(), methods };
            connections.accept(connections::adopt(listener)?, Arc::new(answers), until.clone());
        }
        methods.extend(ttrpc.into_iter().map(|(name, (_, service))| (name, guard.methods(service))));
        let routes = routes.into_iter().map(|(name, (_, route))| (name, route)).collect();
        Ok((connections, Arc::new(Answers { guard: guard.clone(), routes, methods })))
    }
}

/// Looks for a service that is there twice.
fn check_names(uri: &Uri, services: &Services, known: BTreeMap<&String, &Uri>) -> Result<(), FailedInit> {
    let mut own = BTreeSet::new();
    let names = services.routes.iter().map(|(name, _)| name).chain(services.ttrpc.iter().map(|(name, _)| name));
    for name in names {
        let other = known.get(name).copied().or_else(|| (!own.insert(name)).then_some(uri));
        if let Some(other) = other {
            return Err(FailedInit::DuplicateService { service: name.clone(), other: other.clone() });
        }
    }
    Ok(())
}
