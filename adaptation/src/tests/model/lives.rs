//! The actions of the runtime: the lives of pods, with containers that live at the same time.

use std::sync::Arc;

use nri_proto::{Container, ContainerState, Pod, Resources};
use tokio::time::timeout;

use super::world::Node;
use crate::Adaptation;
use crate::Notice;

/// Runs the life of a pod.
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

/// Updates the resources of a pod in some lives.
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

/// Runs the life of a container.
async fn contain(nri: &Adaptation, node: &Node, pod: &Pod, id: String) {
    let created =
        Container { id: id.clone(), pod_id: pod.id.clone(), state: ContainerState::Created, ..Container::default() };
    node.pause(300).await;
    let operation = nri.begin(pod.clone());
    let asked = in_time(node, operation.create_container(created.clone())).await;
    node.pause(300).await;
    if !asked || node.below(6) == 0 {
        return node.done(operation, &id, &["CreateContainer"], true);
    }
    node.change(|store| drop(store.containers.insert(id.clone(), created.clone())));
    node.pause(300).await;
    // A post event is delivered even if its caller drops the request.
    let _ = operation.notify(Notice::PostCreate(created.clone())).await;
    node.done(operation, &id, &["CreateContainer", "PostCreateContainer"], false);

    let removed = Container { state: ContainerState::Stopped, ..created.clone() };
    let mut stopped = run(nri, node, pod, created).await;
    // Some containers are restarted.
    while let Some(words) = stopped.take_if(|_| node.below(3) == 0) {
        stopped = run(nri, node, pod, words).await;
    }
    node.pause(300).await;
    let operation = nri.begin(pod.clone());
    let _ = in_time(node, operation.notify(Notice::Remove(removed))).await;
    node.done(operation, &id, &["RemoveContainer"], false);
}

/// Runs a container that is Created or Stopped: starts the container, in some lives in vain, and
/// stops it. Returns the container as the runtime describes it afterwards.
///
/// If a first start fails, the runtime itself sends the Stop, as runtimes on Go's NRI do. After a
/// failed restart that would be a second Stop for plugins that did not see the Start. So the
/// runtime only removes the container, and this returns `None`.
async fn run(nri: &Adaptation, node: &Node, pod: &Pod, container: Container) -> Option<Container> {
    let is_restart = container.state == ContainerState::Stopped;
    let mut tries = 3;
    let mut running = None;
    while running.is_none() && tries > 0 {
        running = start(nri, node, pod, &container).await;
        tries = if node.below(2) == 0 { 0 } else { tries - 1 };
    }
    if is_restart && running.is_none() {
        return None;
    }
    let last = running.unwrap_or(container);
    update_container(nri, node, pod, &last).await;
    node.pause(1000).await;
    Some(stop(nri, node, pod, last).await)
}

/// Starts a container. Returns the container as the runtime describes it afterwards, or `None` if
/// the start failed.
async fn start(nri: &Adaptation, node: &Node, pod: &Pod, container: &Container) -> Option<Container> {
    node.pause(300).await;
    let operation = nri.begin(pod.clone());
    let started = in_time(node, operation.notify(Notice::Start(container.clone()))).await;
    if !started || node.below(8) == 0 {
        node.done(operation, &container.id, &["StartContainer"], true);
        return None;
    }
    let running = Container { state: ContainerState::Running, started_at: 1, ..container.clone() };
    node.change(|store| drop(store.containers.insert(running.id.clone(), running.clone())));
    node.pause(300).await;
    let _ = operation.notify(Notice::PostStart(running.clone())).await;
    node.done(operation, &container.id, &["StartContainer", "PostStartContainer"], false);
    Some(running)
}

/// Stops a container. Returns the container as the runtime describes it afterwards.
async fn stop(nri: &Adaptation, node: &Node, pod: &Pod, container: Container) -> Container {
    let id = container.id.clone();
    let stopped = Container { state: ContainerState::Stopped, ..container.clone() };
    // The request of a runtime may show the container as stopped, or in its former state.
    let words = if node.below(2) == 0 { container } else { stopped.clone() };
    let operation = nri.begin(pod.clone());
    let _ = in_time(node, operation.stop_container(words)).await;
    node.pause(100).await;
    node.change(|store| drop(store.containers.remove(&id)));
    // Some stops take long.
    if node.below(4) == 0 {
        node.pause(60_000).await;
    }
    node.done(operation, &id, &["StopContainer"], false);
    stopped
}

/// Updates the resources of a container in some lives. The request may show the container in the
/// state before its start.
async fn update_container(nri: &Adaptation, node: &Node, pod: &Pod, container: &Container) {
    if node.below(2) == 0 {
        return;
    }
    node.pause(300).await;
    let lags = node.below(4) == 0;
    let words = match lags {
        true => Container { state: ContainerState::Created, started_at: 0, ..container.clone() },
        false => container.clone(),
    };
    let said = lags.then_some("created");
    let operation = nri.begin(pod.clone());
    let updating = operation.update_container(words.clone(), Some(Resources::default()));
    if !in_time(node, updating).await || node.below(8) == 0 {
        return node.done_with_words(operation, &container.id, &["UpdateContainer"], true, said);
    }
    node.pause(300).await;
    let _ = operation.notify(Notice::PostUpdate(words)).await;
    node.done_with_words(operation, &container.id, &["UpdateContainer", "PostUpdateContainer"], false, said);
}

/// Returns whether the request succeeded. Some callers drop the request early.
async fn in_time<T, E>(node: &Node, request: impl Future<Output = Result<T, E>>) -> bool {
    if node.below(8) > 0 {
        return request.await.is_ok();
    }
    matches!(timeout(node.millis(3000), request).await, Ok(Ok(_)))
}
