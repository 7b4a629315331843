//! What the runtime does: the lives of pods, with containers that live at the same time.

use std::sync::Arc;

use nri_proto::{Container, ContainerState, Pod, Resources};
use tokio::time::timeout;

use super::world::Node;
use crate::{Adaptation, Notice};

/// The life of a pod.
pub(super) async fn live(nri: Arc<Adaptation>, node: Arc<Node>, number: u64) {
    let id = format!("p{number}");
    let pod = Pod { id: id.clone(), ..Pod::default() };
    node.pause(if node.is_required { 6000 } else { 1500 }).await;
    let operation = nri.begin(pod.clone());
    let ran = in_time(&node, operation.notify(Notice::RunPod)).await;
    node.pause(200).await;
    if !ran || node.below(8) == 0 {
        return node.done(operation, &id, &["RunPodSandbox"], true);
    }
    node.change(|store| drop(store.pods.insert(id.clone(), pod.clone())));
    node.pause(200).await;
    node.done(operation, &id, &["RunPodSandbox"], false);
    let containers = (0..=node.below(2)).map(|n| contain(&nri, &node, &pod, format!("{id}c{n}")));
    tokio::join!(futures_util::future::join_all(containers), update_pod(&nri, &node, &pod));
    let operation = nri.begin(pod.clone());
    let _ = in_time(&node, operation.notify(Notice::StopPod)).await;
    node.pause(100).await;
    node.done(operation, &id, &["StopPodSandbox"], false);
    node.pause(500).await;
    let operation = nri.begin(pod);
    let _ = in_time(&node, operation.notify(Notice::RemovePod)).await;
    node.pause(100).await;
    node.change(|store| drop(store.pods.remove(&id)));
    node.pause(100).await;
    node.done(operation, &id, &["RemovePodSandbox"], false);
}

/// At times a pod gets new limits.
async fn update_pod(nri: &Adaptation, node: &Node, pod: &Pod) {
    if node.below(2) == 0 {
        return;
    }
    node.pause(3000).await;
    let operation = nri.begin(pod.clone());
    let resources = Some(Resources::default());
    let updated = in_time(node, operation.notify(Notice::UpdatePod { overhead: None, resources })).await;
    if !updated || node.below(8) == 0 {
        return node.done(operation, &pod.id, &["UpdatePodSandbox"], true);
    }
    node.pause(300).await;
    let _ = operation.notify(Notice::PostUpdatePod).await;
    node.done(operation, &pod.id, &["UpdatePodSandbox", "PostUpdatePodSandbox"], false);
}

/// The life of a container.
async fn contain(nri: &Adaptation, node: &Node, pod: &Pod, id: String) {
    let of_state = |state| Container { id: id.clone(), pod_id: pod.id.clone(), state, ..Container::default() };
    let (created, running) = (of_state(ContainerState::Created), of_state(ContainerState::Running));
    node.pause(300).await;
    let operation = nri.begin(pod.clone());
    let asked = in_time(node, operation.create_container(created.clone())).await;
    node.pause(300).await;
    if !asked || node.below(6) == 0 {
        return node.done(operation, &id, &["CreateContainer"], true);
    }
    node.change(|store| drop(store.containers.insert(id.clone(), created.clone())));
    node.pause(300).await;
    // What has happened is told in any case, also if nobody waits for that.
    let _ = operation.notify(Notice::PostCreate(created.clone())).await;
    node.done(operation, &id, &["CreateContainer", "PostCreateContainer"], false);

    node.pause(300).await;
    let operation = nri.begin(pod.clone());
    let started = in_time(node, operation.notify(Notice::Start(created.clone()))).await;
    let mut last = created;
    if started && node.below(8) != 0 {
        node.change(|store| drop(store.containers.insert(id.clone(), running.clone())));
        node.pause(300).await;
        let _ = operation.notify(Notice::PostStart(running.clone())).await;
        node.done(operation, &id, &["StartContainer", "PostStartContainer"], false);
        last = running;
    } else {
        node.done(operation, &id, &["StartContainer"], true);
    }
    update_container(nri, node, pod, &last).await;

    node.pause(1000).await;
    let operation = nri.begin(pod.clone());
    let _ = in_time(node, operation.stop_container(last)).await;
    node.pause(100).await;
    node.change(|store| drop(store.containers.remove(&id)));
    // A stop may take long.
    if node.below(4) == 0 {
        node.pause(60_000).await;
    }
    node.done(operation, &id, &["StopContainer"], false);
    node.pause(300).await;
    let operation = nri.begin(pod.clone());
    let _ = in_time(node, operation.notify(Notice::Remove(of_state(ContainerState::Stopped)))).await;
    node.done(operation, &id, &["RemoveContainer"], false);
}

/// At times a container gets new limits.
async fn update_container(nri: &Adaptation, node: &Node, pod: &Pod, container: &Container) {
    if node.below(2) == 0 {
        return;
    }
    node.pause(300).await;
    let operation = nri.begin(pod.clone());
    let updating = operation.update_container(container.clone(), Some(Resources::default()));
    if !in_time(node, updating).await || node.below(8) == 0 {
        return node.done(operation, &container.id, &["UpdateContainer"], true);
    }
    node.pause(300).await;
    let _ = operation.notify(Notice::PostUpdate(container.clone())).await;
    node.done(operation, &container.id, &["UpdateContainer", "PostUpdateContainer"], false);
}

/// Whether it went well. Some callers are impatient.
async fn in_time<T, E>(node: &Node, request: impl Future<Output = Result<T, E>>) -> bool {
    if node.below(8) > 0 {
        return request.await.is_ok();
    }
    matches!(timeout(node.millis(3000), request).await, Ok(Ok(_)))
}
