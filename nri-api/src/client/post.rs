//! Post events: plugins hear of an action that is completed.

use std::sync::Arc;

use nri_adaptation::Notice;
use nri_proto::{Container, Pod};

use super::NamespaceClient;
use crate::error::Error;
use crate::lifecycle::convert::conform;
use crate::lifecycle::steps::Completion;
use crate::mistake::Mistake;

impl NamespaceClient {
    /// Notifies plugins of a completed action of a container, unless the event is outdated. The
    /// event has an operation of its own: a failed event does not undo the action.
    pub(crate) async fn post(
        &self,
        pod: &Arc<Pod>,
        mut container: Container,
        completion: Completion,
        notice: impl FnOnce(Container) -> Notice,
    ) -> Result<(), Error> {
        if self.namespace.is_podless {
            container.pod_id.clone_from(&pod.id);
        }
        let id = container.id.clone();
        let Some(claimed) = self.namespace.containers.claim_post(&id, completion).await else { return Ok(()) };
        if let Some(state) = claimed.prior.filter(|_| !Mistake::WordsAsTheyAre.is_injected()) {
            conform(&mut container, state);
        }
        let operation = Arc::new(self.begin(pod));
        let (outcome, claimed) = claimed.send(&operation, operation.notify(notice(container))).await;
        claimed.delivered();
        Ok(outcome?)
    }

    /// Notifies plugins that a pod has its new limits.
    pub(crate) async fn post_pod(&self, pod: Pod) -> Result<(), Error> {
        let pod = Arc::new(pod);
        let Some(claimed) = self.namespace.pods.claim_post(&pod.id, Completion::Update).await else { return Ok(()) };
        let operation = Arc::new(self.begin(&pod));
        let (outcome, claimed) = claimed.send(&operation, operation.notify(Notice::PostUpdatePod)).await;
        claimed.delivered();
        Ok(outcome?)
    }
}
