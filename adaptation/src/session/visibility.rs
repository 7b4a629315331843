//! What a plugin sees of what it wants to change: an update or eviction of a container in a pod
//! that its policy hides is refused, whichever way the plugin asks for it.
//!
//! Such a plugin names containers by their ids alone, so the runtime's [`Source`](crate::Source) is
//! asked where they are. A container that it does not know, or does not tell of in time, is hidden.
//! The plugin is told the same of a container that is hidden and of one that is not there, or it
//! could find out what there is.

use std::collections::{BTreeSet, HashMap};
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use nri_proto::quote::quoted;
use nri_proto::{Event, Eviction, PluginId, Update};
use tokio::time::timeout;
use tracing::warn;

use crate::api::plugin::Reply;
use crate::api::request::Request;
use crate::api::source::UpdatesFailed;
use crate::config::policy::{NotAllowed, Policy};
use crate::limits;
use crate::session::late;
use crate::session::roster::Participant;
use crate::session::services::Services;
use crate::session::unsolicited::UnaskedError;

/// How many containers a refusal names. The others are counted.
const MAX_NAMED: usize = 10;

/// What a plugin wants of containers other than the one that it is asked about.
pub(crate) struct Wanted<'r> {
    pub(crate) updates: &'r mut Vec<Update>,
    pub(crate) evictions: Option<&'r mut Vec<Eviction>>,
}

/// What a plugin wants of containers in pods that it does not see.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    updates: Vec<Update>,
    evictions: Vec<Eviction>,
}

impl<'r> Wanted<'r> {
    /// What an answer wants of other containers, if it wants anything.
    pub(crate) fn of(reply: &'r mut Reply) -> Option<Self> {
        let wanted = match reply {
            Reply::Create(reply) => Self { updates: &mut reply.updates, evictions: Some(&mut reply.evictions) },
            Reply::Update(reply) => Self { updates: &mut reply.updates, evictions: Some(&mut reply.evictions) },
            Reply::Stop(reply) => Self { updates: &mut reply.updates, evictions: None },
            Reply::Heard | Reply::Verdict(_) => return None,
        };
        let is_anything = !wanted.updates.is_empty() || wanted.evictions().next().is_some();
        is_anything.then_some(wanted)
    }

    /// Takes out what a plugin may not change, on any of these policies, as it does not see it.
    /// Updates of the container `own`, which the plugin is asked about and the runtime updates
    /// itself, stay.
    pub(crate) async fn take_hidden(self, services: &Services, policies: [&Policy; 2], own: Option<&str>) -> Hidden {
        if policies.iter().all(|policy| policy.sees_all()) {
            return Hidden::default();
        }
        let of_others = self.updates.iter().map(|update| &*update.container_id).filter(|id| Some(*id) != own);
        let evicted = self.evictions().map(|eviction| &*eviction.container_id);
        let ids: BTreeSet<&str> = of_others.chain(evicted).collect();
        if ids.is_empty() {
            return Hidden::default();
        }
        let ids: Vec<String> = ids.into_iter().map(str::to_owned).collect();
        let namespaces = namespaces_of(services, &ids).await;
        let is_seen = |id: &str| {
            let sees = |namespace: &String| policies.iter().all(|policy| policy.sees(namespace));
            namespaces.get(id).is_some_and(|namespaces| !namespaces.is_empty() && namespaces.iter().all(sees))
        };
        let Self { updates, evictions } = self;
        let is_update_hidden = |update: &mut Update| {
            let id = &*update.container_id;
            Some(id) != own && !is_seen(id)
        };
        let hidden = |evictions: &mut Vec<Eviction>| {
            evictions.extract_if(.., |eviction| !is_seen(&eviction.container_id)).collect()
        };
        Hidden {
            updates: updates.extract_if(.., is_update_hidden).collect(),
            evictions: evictions.map(hidden).unwrap_or_default(),
        }
    }

    fn evictions(&self) -> impl Iterator<Item = &Eviction> {
        self.evictions.iter().flat_map(|evictions| evictions.iter())
    }
}

/// Takes out of an answer what its plugin wants of containers in pods that it does not see. An
/// answer that is refused for something else stays as it is.
pub(crate) async fn take_hidden(entry: &Participant, request: &Request, reply: &mut Reply) -> Hidden {
    let container = request.container().map(|container| &*container.id);
    let then = entry.terms.policy();
    if late::check(then, container.unwrap_or_default(), reply).is_err() {
        return Hidden::default();
    }
    let Some(wanted) = Wanted::of(reply) else { return Hidden::default() };
    let now = entry.entry.terms();
    // A container that stops is updated by its id, as others are.
    let own = container.filter(|_| request.event() != Event::StopContainer);
    let hidden = wanted.take_hidden(&entry.services, [then, now.policy()], own).await;
    hidden.warn(&entry.id);
    hidden
}

/// Where containers are, as far as the runtime says so in time.
async fn namespaces_of(services: &Services, ids: &[String]) -> HashMap<String, Vec<String>> {
    let progress = AssertUnwindSafe(services.source.namespaces_of(ids)).catch_unwind();
    let problem = match timeout(services.config.source_timeout, progress).await {
        Ok(Ok(namespaces)) => return namespaces,
        Ok(Err(_panic)) => "it panicked",
        Err(_elapsed) => "it did not say it in time",
    };
    warn!(problem, containers = ids.len(), "the runtime does not say in which pods containers are");
    HashMap::new()
}

impl Hidden {
    pub(crate) fn is_empty(&self) -> bool {
        self.updates.is_empty() && self.evictions.is_empty()
    }

    /// What is refused, by the containers.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = (&str, NotAllowed)> {
        let refusal = |id| (id, NotAllowed::Hidden { container: limits::cut(id) });
        self.ids().map(refusal)
    }

    /// Logs what is refused, in one line.
    pub(crate) fn warn(&self, plugin: &PluginId) {
        if !self.is_empty() {
            let (count, containers) = (self.ids().count(), named(self.ids()));
            warn!(%plugin, count, containers, "a plugin wants to change containers in pods that it may not see");
        }
    }

    /// What came of all that the plugin asked for by itself, if this came of the rest. The plugin
    /// is not told of updates whose failure it ignores.
    pub(crate) fn and(self, made: Result<Vec<Update>, UnaskedError>) -> Result<Vec<Update>, UnaskedError> {
        let Self { mut updates, evictions } = self;
        updates.retain(|update| !update.ignore_failure);
        let told = updates.iter().map(|update| &*update.container_id);
        let told = told.chain(evictions.iter().map(|eviction| &*eviction.container_id));
        let containers = named(told);
        if containers.is_empty() {
            return made;
        }
        let mut reason = format!("it may not change containers in pods that it may not see: {containers}");
        match made {
            Ok(failed) => updates.extend(failed),
            Err(UnaskedError::Failed(UpdatesFailed { reason: other, failed })) => {
                reason = format!("{reason}; {other}");
                updates.extend(failed);
            }
            Err(undone) => return Err(undone),
        }
        Err(UpdatesFailed { reason, failed: updates }.into())
    }

    fn ids(&self) -> impl Iterator<Item = &str> {
        let updated = self.updates.iter().map(|update| &*update.container_id);
        updated.chain(self.evictions.iter().map(|eviction| &*eviction.container_id))
    }
}

/// Names containers, up to a limit. Nothing if there are none.
fn named<'i>(ids: impl Iterator<Item = &'i str>) -> String {
    /// How many bytes of an id are told.
    const MAX_ID: usize = 80;
    let mut ids = ids;
    let first = ids.by_ref().take(MAX_NAMED);
    let mut parts: Vec<_> = first.map(|id| quoted(&id[..id.floor_char_boundary(MAX_ID)]).to_string()).collect();
    let n_more = ids.count();
    if n_more > 0 {
        parts.push(format!("and {n_more} more"));
    }
    parts.join(", ")
}
