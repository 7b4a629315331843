//! Whether what plugins want of a new container may be.

use std::sync::Arc;

use futures_util::future::join_all;
use nri_proto::{Event, PluginId, PluginInstance, Proposal, Verdict};
use tracing::warn;

use crate::cause::RelayError;
use crate::entry::Entry;
use crate::health::State;
use crate::merge::MergedCreate;
use crate::plugin::{PluginError, Reply};
use crate::request::{Request, Subject};
use crate::roster::Roster;

/// What a validator says that does not say why.
const NO_REASON: &str = "unknown rejection reason";

/// The validation of one container to be created.
pub(crate) struct Validation<'a> {
    pub(crate) participants: &'a Roster,
    /// The request as it was before any plugin changed the container.
    pub(crate) original: &'a Request,
    /// Who has said what they want.
    pub(crate) answered: &'a [PluginId],
}

impl Validation<'_> {
    /// Asks all validators at the same time. Each must accept.
    pub(crate) async fn judge(self, merged: MergedCreate) -> Result<MergedCreate, RelayError> {
        let subject = Subject::Proposal(Arc::new(self.proposal(&merged)));
        let request = Arc::new(self.original.of(Event::ValidateContainerAdjustment, subject));
        let validators = self.participants.subscribed(Event::ValidateContainerAdjustment);
        let verdicts = join_all(validators.map(|(_, entry)| verdict(entry, &request))).await;
        let mut failed = None;
        for failure in verdicts.into_iter().filter_map(Result::err) {
            warn!(error = &failure as &dyn std::error::Error, "a container may not be created");
            failed.get_or_insert(failure);
        }
        failed.map_or(Ok(merged), Err)
    }

    fn proposal(&self, merged: &MergedCreate) -> Proposal {
        Proposal {
            pod: Some(self.original.pod().clone()),
            container: self.original.container().cloned(),
            adjustment: Some(merged.adjustment.clone()),
            updates: merged.updates.clone(),
            owners: Some(merged.owners.clone()),
            plugins: self.consulted().map(PluginInstance::from).collect(),
            ..Proposal::default()
        }
    }

    /// Those who answered, and those who could have but do not want to be asked.
    fn consulted(&self) -> impl Iterator<Item = &PluginId> {
        let is_consulted = |entry: &&Arc<Entry>| {
            if entry.events.contains(Event::CreateContainer) {
                self.answered.contains(&entry.id)
            } else {
                entry.state() == State::Active
            }
        };
        self.participants.entries().iter().filter(is_consulted).map(|entry| &entry.id)
    }
}

/// Asks one validator. Without its word nothing may be.
async fn verdict(entry: &Arc<Entry>, request: &Arc<Request>) -> Result<(), RelayError> {
    let failed = |cause| Err(RelayError::Validator { plugin: entry.id.clone(), cause });
    match entry.ask(request).await {
        Ok(Reply::Verdict(verdict)) => accepted(&entry.id, &verdict),
        Ok(_) => failed(PluginError::Breach("its answer is not a verdict").into()),
        // Its error is its way to say no.
        Err(cause) => failed(cause),
    }
}

fn accepted(validator: &PluginId, verdict: &Verdict) -> Result<(), RelayError> {
    let Some(reason) = verdict.rejection() else { return Ok(()) };
    let reason = if reason.is_empty() { NO_REASON } else { reason };
    Err(RelayError::Rejected { validator: validator.clone(), reason: reason.to_owned() })
}
