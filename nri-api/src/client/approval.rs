//! The first step of a start or an update of a container: plugins are about to be asked.

use nri_proto::Pod;

use super::NamespaceClient;
use crate::error::{Error, ObjectKind};
use crate::lifecycle::namespace::{ContainerInfo, NewlyKnown, Presence};
use crate::lifecycle::state::State;
use crate::lifecycle::steps::{ApprovalKind, RunId};
use crate::lifecycle::table::approval::Approval;

/// A start or an update of a container that plugins are about to be asked about.
pub(super) struct ApprovalRequest<'a> {
    pub(super) approval: Approval<'a, ContainerInfo>,
    /// The state that plugins know.
    pub(super) state: State,
    /// The objects that became known through this request.
    pub(super) newly_known: NewlyKnown,
}

impl NamespaceClient {
    /// Begins to ask plugins about a start or an update of a container. An unknown container is
    /// added in the state `state`. Fails if the container was removed a while ago.
    pub(super) async fn begin_approval<'a>(
        &'a self,
        id: &'a str,
        pod: &Pod,
        state: State,
        run: RunId,
        kind: ApprovalKind,
    ) -> Result<ApprovalRequest<'a>, Error> {
        let mut newly_known = NewlyKnown::default();
        loop {
            match self.namespace.containers.begin_approval(id, kind).await {
                Some(begun) => {
                    let (state, approval) = begun.map_err(|refusal| refusal.error(ObjectKind::Container, id))?;
                    return Ok(ApprovalRequest { approval, state, newly_known });
                }
                None if self.namespace.presence(id) == Presence::Ended => {
                    return Err(Error::Removed { kind: ObjectKind::Container, id: id.to_owned() });
                }
                None => newly_known = self.namespace.enter_container(id, pod, state, run),
            }
        }
    }
}
