//! The layer that handles requests: the adaptation or `nri-api`.

use std::sync::Arc;

use anyhow::Result;
use futures_util::TryFutureExt;
use futures_util::future::Either;
use nri_adaptation::{Adaptation, Config, Happening, Metrics, PluginStatus, RelayError};
use nri_api::{Handle, Nri};
use nri_proto::{PluginId, Pod};
use tokio::sync::broadcast::Receiver;
use tokio::time::Instant;

use crate::api::{self, Store};
use crate::builtin::Builtin;
use crate::node::{Node, State};
use crate::protocol::Outcome;
use crate::relay::{self, Act, Answer};

/// The layer that handles requests, and its parts.
pub(crate) enum Layer {
    /// Requests go directly to the adaptation.
    Adaptation { nri: Adaptation },
    /// Requests go through `nri-api`, which keeps states.
    Api { nri: Nri, handle: Handle, store: Arc<Store> },
}

/// Why a request failed.
pub(crate) enum Failure {
    Relay(RelayError),
    Api(nri_api::Error),
}

impl Failure {
    /// Returns the failure in the form of the protocol.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Relay(error) | Self::Api(nri_api::Error::Relay(error)) => relay::outcome(error),
            Self::Api(error) => Outcome { ok: false, error: error.to_string(), error_code: "" },
        }
    }
}

impl Layer {
    pub(crate) fn adaptation(config: Config, node: &Arc<Node>, metrics: Arc<dyn Metrics>) -> Self {
        Self::Adaptation { nri: Adaptation::with_metrics(config, Arc::clone(node) as _, metrics) }
    }

    pub(crate) fn api(config: Config, node: &Arc<Node>, metrics: Arc<dyn Metrics>) -> Result<Self> {
        let nri = Nri::with_metrics(config, metrics);
        let store = Arc::new(Store::new(Arc::clone(node)));
        let handle = nri.register("k8s.io", Arc::clone(&store) as _)?;
        store.know(handle.clone());
        Ok(Self::Api { nri, handle, store })
    }

    /// Admits built-in plugins and launches others. With `nri-api`, plugins may also connect from
    /// then on.
    pub(crate) async fn open(&self, builtin: Vec<(PluginId, Builtin)>) -> Result<()> {
        match self {
            Self::Adaptation { nri } => {
                for (id, plugin) in builtin {
                    nri.admit(id, Arc::new(plugin)).await?;
                }
                nri.launch().await?;
            }
            Self::Api { nri, .. } => {
                nri.start().await?;
                for (id, plugin) in builtin {
                    nri.admit(id, Arc::new(plugin)).await?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn listen(&self) -> Result<()> {
        match self {
            Self::Adaptation { nri } => Ok(nri.listen()?),
            Self::Api { .. } => Ok(()),
        }
    }

    /// Adds the pods and containers that the controller reports.
    pub(crate) fn adopt(&self, state: &State) {
        if let Self::Api { handle, .. } = self {
            handle.adopt(api::inventory(state.snapshot.clone()));
        }
    }

    pub(crate) fn plugins(&self) -> Vec<PluginStatus> {
        match self {
            Self::Adaptation { nri } => nri.plugins(),
            Self::Api { nri, .. } => nri.plugins(),
        }
    }

    pub(crate) fn watch_plugins(&self) -> Receiver<Happening> {
        match self {
            Self::Adaptation { nri } => nri.watch_plugins(),
            Self::Api { nri, .. } => nri.watch_plugins(),
        }
    }

    pub(crate) async fn settled(&self) {
        match self {
            Self::Adaptation { nri } => nri.settled().await,
            Self::Api { nri, .. } => nri.settled().await,
        }
    }

    pub(crate) async fn stop(&self) {
        match self {
            Self::Adaptation { nri } => nri.stop().await,
            Self::Api { nri, .. } => nri.stop().await,
        }
    }

    /// Relays a request. Not an async function, because the future would contain the request twice.
    pub(crate) fn relay(
        &self,
        pod: Pod,
        act: Box<Act>,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<Answer, Failure>> + Send {
        match self {
            Self::Adaptation { nri } => Either::Left(relay::relay(nri, pod, act, deadline).map_err(Failure::Relay)),
            Self::Api { handle, store, .. } => {
                let handle = deadline.map_or_else(|| handle.clone(), |deadline| handle.until(deadline));
                Either::Right(Box::pin(api::perform(handle, store, pod, act)).map_err(Failure::Api))
            }
        }
    }
}
