//! Exits and failed first starts. They are recorded at once, and a task notifies plugins.

use std::sync::Arc;

use nri_proto::{Container, Pod};

use super::NamespaceClient;
use super::details::{ContainerDetails, has_exit_details};
use super::stop_remove::log_failure;
use crate::lifecycle::namespace::ContainerInfo;
use crate::lifecycle::steps::{EndGoal, RunId};
use crate::lifecycle::table::TableEntry;
use crate::mistake::Mistake;

impl NamespaceClient {
    /// Records an exit, with the run that it ends, and notifies plugins in a task. If a caller
    /// claims the Stop before the task, the Stop contains the values of the exit.
    pub(crate) fn report_exit(&self, pod: Arc<Pod>, container: Container) {
        let id = container.id.clone();
        let is_recorded = self.namespace.containers.edit(&id, |entry| {
            let run = entry.lifecycle.reported_run();
            let is_new = entry.lifecycle.can_exit() && entry.info.record_exit(run, Some(Box::new(container)));
            entry.info.forget_exits(&entry.lifecycle);
            is_new
        });
        match is_recorded {
            Some(true) => self.notify_exit(pod, &id),
            // Plugins have heard of this end, or are being told.
            Some(false) => {}
            None => self.instance.startup.count_unknown_exit(),
        }
    }

    /// Notifies plugins in a task that a container has stopped because its first start failed.
    pub(super) fn first_start_failed(&self, pod: Arc<Pod>, id: &str, run: RunId) {
        let is_recorded = self
            .namespace
            .containers
            .edit(id, |entry| entry.lifecycle.needs_stop_after_failed_start(run) && entry.info.record_exit(run, None));
        if is_recorded == Some(true) {
            self.notify_exit(pod, id);
        }
    }

    /// Notifies plugins of a recorded exit in a task. Does nothing while the container is being
    /// created or started: the caller of that request notifies plugins afterwards.
    pub(super) fn notify_exit(&self, pod: Arc<Pod>, id: &str) {
        if let Some(run) = self.undelivered_exit(id) {
            let (client, id) = (self.without_deadline(), id.to_owned());
            if !self.instance.spawn_notification(async move { client.deliver_exit(&pod, &id, run).await }) {
                self.instance.startup.count_exit_after_stop();
            }
        }
    }

    /// Returns the run whose end is recorded and that plugins have not heard of.
    pub(super) fn undelivered_exit(&self, id: &str) -> Option<RunId> {
        let undelivered = |entry: &TableEntry<ContainerInfo>| {
            entry.info.exits.iter().map(|exit| exit.run).find(|run| entry.lifecycle.run_needs_stop(*run))
        };
        self.namespace.containers.read(id, undelivered)?
    }

    /// Notifies plugins of the recorded end of a run, unless another caller has claimed the Stop.
    /// Never ends a later run, however long the notification waits.
    pub(super) async fn deliver_exit(&self, pod: &Arc<Pod>, id: &str, run: RunId) {
        if self.undelivered_exit(id) != Some(run) {
            return;
        }
        let run = if Mistake::ExitEndsAnyRun.is_injected() { RunId::LAST } else { run };
        let delivery = async {
            if self.namespace.is_podless {
                return self.end_pod(pod, None, EndGoal::Stopped, run).await;
            }
            let has_exit = self.namespace.containers.read(id, has_exit_details) == Some(true);
            let details = ContainerDetails::new(self, pod, None).of(id, has_exit).await;
            self.end_container(pod, id, details, EndGoal::Stopped, run).await
        };
        if let Err(error) = delivery.await {
            log_failure(&error, id);
        }
    }
}
