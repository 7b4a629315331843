//! The container that plugins get in a Stop, if the runtime did not report that end itself.

use std::collections::HashMap;
use std::sync::Arc;

use nri_proto::{Container, Pod};

use super::NamespaceClient;
use crate::lifecycle::namespace::ContainerInfo;
use crate::lifecycle::table::TableEntry;

/// Finds the containers of a pod as the runtime knows them.
pub(super) struct ContainerDetails<'a> {
    client: &'a NamespaceClient,
    pub(super) pod: &'a Arc<Pod>,
    known: HashMap<String, Container>,
    has_asked_domain: bool,
}

impl<'a> ContainerDetails<'a> {
    pub(super) fn new(client: &'a NamespaceClient, pod: &'a Arc<Pod>, known: Option<Container>) -> Self {
        let known = known.into_iter().map(|known| (known.id.clone(), known)).collect();
        Self { client, pod, known, has_asked_domain: false }
    }

    /// Returns a container as the runtime knows it. The domain is asked once about all containers
    /// of the pod, and only if the container has no exit with all details.
    pub(super) async fn of(&mut self, id: &str, has_exit: bool) -> Option<Container> {
        let is_known = has_exit || self.known.contains_key(id);
        if !is_known && !std::mem::replace(&mut self.has_asked_domain, true) {
            let (namespace, namespaces) = (&self.client.namespace, &self.client.instance.namespaces);
            let ids = namespace.containers_of(&self.pod.id);
            let found = namespace.look_up(&ids, namespaces.deadline()).await;
            self.known.extend(found.into_iter().map(|container| (container.id.clone(), container)));
        }
        self.known.get(id).cloned()
    }
}

/// Returns whether the exit of the current run contains what plugins are told of its end.
pub(super) fn has_exit_details(entry: &TableEntry<ContainerInfo>) -> bool {
    let exit = entry.info.exits.iter().find(|exit| exit.run >= entry.lifecycle.run());
    exit.is_some_and(|exit| exit.container.is_some())
}

/// Returns a stopped container for plugins: as the runtime reports it, with the values of its exit.
/// Without either, the container has nothing but its id and its pod.
pub(super) fn stopped(reported: Option<Container>, exit: Option<Box<Container>>, id: &str, pod: &Pod) -> Container {
    match (reported, exit) {
        (None, Some(exit)) => *exit,
        (Some(reported), None) => reported,
        (None, None) => Container { id: id.to_owned(), pod_id: pod.id.clone(), ..Container::default() },
        (Some(reported), Some(exit)) => {
            let either = |exit: String, reported: String| if exit.is_empty() { reported } else { exit };
            Container {
                exit_code: exit.exit_code,
                finished_at: if exit.finished_at == 0 { reported.finished_at } else { exit.finished_at },
                status_reason: either(exit.status_reason, reported.status_reason),
                status_message: either(exit.status_message, reported.status_message),
                ..reported
            }
        }
    }
}
