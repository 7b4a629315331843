//! Limits on what a plugin may change: an update or an eviction of a container in a pod that the
//! plugin's policy hides is refused, in whichever way the plugin asks for it.
//!
//! Such a plugin identifies containers by their ids alone, so the runtime's
//! [`Source`](crate::Source) is asked for the namespaces of the containers. A container that the
//! source does not know, or does not report in time, counts as hidden. The plugin gets the same
//! refusal for a hidden container and for one that does not exist, so that it cannot find out which
//! containers exist.

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
use crate::session::unsolicited::UnsolicitedError;

/// The number of containers that a refusal names. Further containers are only counted.
const MAX_NAMED: usize = 10;

/// The updates and evictions that a plugin asks for.
pub(crate) struct RequestedChanges<'r> {
    pub(crate) updates: &'r mut Vec<Update>,
    pub(crate) evictions: Option<&'r mut Vec<Eviction>>,
}

/// Updates and evictions of containers in pods that the plugin may not see.
#[derive(Debug, Default)]
pub(crate) struct HiddenChanges {
    updates: Vec<Update>,
    evictions: Vec<Eviction>,
}

impl<'r> RequestedChanges<'r> {
    /// Returns the updates and evictions in an answer, or `None` if it has none.
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

    /// Takes out the changes of containers that any of these policies hides from the plugin. `own`
    /// is the container that the plugin is asked about: updates of it stay, because the runtime
    /// makes them itself.
    pub(crate) async fn take_hidden(
        self,
        services: &Services,
        policies: [&Policy; 2],
        own: Option<&str>,
    ) -> HiddenChanges {
        if policies.iter().all(|policy| policy.sees_all()) {
            return HiddenChanges::default();
        }
        let of_others = self.updates.iter().map(|update| &*update.container_id).filter(|id| Some(*id) != own);
        let evicted = self.evictions().map(|eviction| &*eviction.container_id);
        let ids: BTreeSet<&str> = of_others.chain(evicted).collect();
        if ids.is_empty() {
            return HiddenChanges::default();
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
        HiddenChanges {
            updates: updates.extract_if(.., is_update_hidden).collect(),
            evictions: evictions.map(hidden).unwrap_or_default(),
        }
    }

    fn evictions(&self) -> impl Iterator<Item = &Eviction> {
        self.evictions.iter().flat_map(|evictions| evictions.iter())
    }
}

/// Takes the changes of containers in hidden pods out of an answer. An answer that is refused for
/// another reason stays as it is.
pub(crate) async fn take_hidden(entry: &Participant, request: &Request, reply: &mut Reply) -> HiddenChanges {
    let container = request.container().map(|container| &*container.id);
    let then = entry.terms.policy();
    if late::check(then, container.unwrap_or_default(), reply).is_err() {
        return HiddenChanges::default();
    }
    let Some(wanted) = RequestedChanges::of(reply) else { return HiddenChanges::default() };
    let now = entry.entry.terms();
    // A container that stops is updated by its id, like other containers.
    let own = container.filter(|_| request.event() != Event::StopContainer);
    let hidden = wanted.take_hidden(&entry.services, [then, now.policy()], own).await;
    hidden.warn(&entry.id);
    hidden
}

/// Returns the Kubernetes namespaces of containers, as far as the runtime reports them in time.
async fn namespaces_of(services: &Services, ids: &[String]) -> HashMap<String, Vec<String>> {
    let progress = AssertUnwindSafe(services.source.namespaces_of(ids)).catch_unwind();
    let problem = match timeout(services.config.source_timeout, progress).await {
        Ok(Ok(namespaces)) => return namespaces,
        Ok(Err(_panic)) => "the call panicked",
        Err(_elapsed) => "the call timed out",
    };
    warn!(
        problem,
        containers = ids.len(),
        "could not look up the pods of containers; changes of these containers are refused"
    );
    HashMap::new()
}

impl HiddenChanges {
    pub(crate) fn is_empty(&self) -> bool {
        self.updates.is_empty() && self.evictions.is_empty()
    }

    /// Returns the refused containers, each with the reason.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = (&str, NotAllowed)> {
        let refusal = |id| (id, NotAllowed::Hidden { container: limits::cut(id) });
        self.ids().map(refusal)
    }

    /// Logs the refused changes in one line.
    pub(crate) fn warn(&self, plugin: &PluginId) {
        if !self.is_empty() {
            let (count, containers) = (self.ids().count(), named(self.ids()));
            warn!(%plugin, count, containers, "plugin request denied: the containers are in pods that the plugin may not see");
        }
    }

    /// Combines these refusals with the result of the changes that were applied. Updates whose
    /// failure the plugin ignores are not reported to the plugin.
    pub(crate) fn and(self, made: Result<Vec<Update>, UnsolicitedError>) -> Result<Vec<Update>, UnsolicitedError> {
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
            Err(UnsolicitedError::Failed(UpdatesFailed { reason: other, failed })) => {
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

/// Lists container ids, up to a limit. Returns an empty text if there are none.
fn named<'i>(ids: impl Iterator<Item = &'i str>) -> String {
    /// The number of bytes of an id that are listed.
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
