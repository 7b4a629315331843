//! What a request came to, for plugins that answer it late.

use std::sync::OnceLock;

use nri_proto::{Field, Owners, PluginId};

use crate::journal::ActId;

/// What a request came to without the plugins that had no say in it.
///
/// All versions of one request share it: plugins change what the next one is shown.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    /// The operation of the request, if there is one.
    pub(crate) act: Option<ActId>,
    /// How many updates of containers had been made when the request was made.
    pub(crate) since: u64,
    /// Who claimed what in the request; nothing if the request failed, or its caller left.
    claims: OnceLock<Option<Owners>>,
}

impl Decision {
    pub(crate) fn new(act: ActId, since: u64) -> Self {
        Self { act: Some(act), since, claims: OnceLock::new() }
    }

    /// The request has gone on, and this is what plugins claimed in it.
    pub(crate) fn goes_on(&self, claims: Owners) {
        // A request is decided once.
        _ = self.claims.set(Some(claims));
    }

    /// The request has failed, or its caller has left, unless the request has gone on.
    pub(crate) fn fails(&self) {
        _ = self.claims.set(None);
    }

    /// Whether the request has gone on. `None` while it is not decided.
    pub(crate) fn has_gone_on(&self) -> Option<bool> {
        self.claims.get().map(Option::is_some)
    }

    /// Whether another plugin has claimed a field of a container in the request.
    pub(crate) fn is_claimed_from(&self, plugin: &PluginId, container: &str, field: Field, key: &str) -> bool {
        let claims = self.claims.get().and_then(Option::as_ref);
        let owner = claims.and_then(|claims| claims.owner(container, field, key));
        owner.is_some_and(|owner| owner.plugins().any(|other| other != plugin.as_str()))
    }
}
