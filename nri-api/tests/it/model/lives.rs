//! The actions of the runtime on one pod and its containers.

use std::sync::Arc;
use std::time::Duration;

use nri_api::{Container, ContainerState, KnownPod, PodState};
use tokio::time::{sleep, timeout};

use super::world::{Has, Node, WayIn};
use crate::rig;

/// Runs a pod and its containers through their whole lives.
pub(super) async fn live(node: Arc<Node>, number: u64) {
    let pod = format!("pod{number}");
    node.pause(1000).await;
    if !run(&node, &pod).await {
        return;
    }
    let n_containers = if node.is_podless() { 1 + node.below(2) } else { node.below(3) };
    let lives: Vec<_> = (0..n_containers)
        .map(|place| {
            let id = format!("{number}x{place}");
            let life = contained(Arc::clone(&node), if node.is_podless() { id.clone() } else { pod.clone() }, id);
            tokio::spawn(life)
        })
        .collect();
    for life in lives {
        life.await.unwrap();
    }
    if let WayIn::Pods(handle) = node.way() {
        end_pod(&node, handle, &pod, true).await;
    }
}

/// Returns how long a caller waits before it leaves. Some callers leave at once.
fn patience(node: &Node) -> Duration {
    Duration::from_millis(if node.one_in(5) { node.below(500) } else { 600_000 })
}

/// Runs the pod, unless the runtime has no pods. Returns whether plugins have approved the pod.
async fn run(node: &Node, pod: &str) -> bool {
    let WayIn::Pods(handle) = node.way() else { return true };
    for _ in 0..20 {
        let act =
            node.act(&format!("p/{pod}"), &[&[], &["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"]], &[None]);
        if let Ok(Ok(run)) = timeout(patience(node), handle.run_pod(rig::pod(pod))).await {
            node.pause(300).await;
            if !node.one_in(6) {
                let known = KnownPod { pod: rig::pod(pod), state: PodState::Running };
                node.pods.lock().unwrap().insert(pod.to_owned(), known);
                node.came_to(&act, &[&["RunPodSandbox"]], &[Some("pod")]);
                run.commit();
                return true;
            }
        }
        node.pause(2000).await;
    }
    false
}

/// Stops and removes a pod and the containers that are left in it.
pub(super) async fn end_pod(node: &Node, handle: &nri_api::Handle, pod: &str, runs: bool) {
    let left: Vec<_> = {
        let containers = node.containers.lock().unwrap();
        containers.iter().filter(|(_, has)| has.words.pod_id == pod).map(|(id, _)| id.clone()).collect()
    };
    for id in &left {
        settle(node, id);
    }
    if runs {
        node.act(&format!("p/{pod}"), &[&["StopPodSandbox"]], &[None]);
    }
    if node.one_in(2) {
        let _ = timeout(patience(node), handle.stop_pod(rig::pod(pod))).await;
        node.pause(1000).await;
    }
    for id in &left {
        node.act(&format!("c/{id}"), &[&["RemoveContainer"]], &[None]);
    }
    node.act(&format!("p/{pod}"), &[&["RemovePodSandbox"]], &[None]);
    if timeout(patience(node), handle.remove_pod(rig::pod(pod))).await.is_err() {
        handle.pod_ended(pod).await;
    }
    for id in &left {
        node.containers.lock().unwrap().remove(id);
    }
    node.pods.lock().unwrap().remove(pod);
}

/// Records the end of a container that plugins take for alive.
fn settle(node: &Node, id: &str) {
    if node.ends(id).is_none() && node.words(id).state == ContainerState::Created {
        node.containers.lock().unwrap().get_mut(id).unwrap().words.state = ContainerState::Stopped;
        node.stops(id);
    }
}

/// Runs a container through its whole life.
async fn contained(node: Arc<Node>, pod: String, id: String) {
    if create(&node, &pod, &id).await {
        Box::pin(run_again_and_again(node, id)).await;
    }
}

/// Starts, updates and ends an existing container several times, until it is removed or left to the
/// end of its pod.
pub(super) async fn run_again_and_again(node: Arc<Node>, id: String) {
    let updating = tokio::spawn(update(Arc::clone(&node), id.clone()));
    for _ in 0..1 + node.below(4) {
        node.pause(1500).await;
        Box::pin(start(&node, &id)).await;
    }
    updating.await.unwrap();
    if node.is_podless() || node.one_in(2) {
        if node.one_in(2) {
            node.exits(&id);
        }
        settle(&node, &id);
        let removed = node.act(&format!("c/{id}"), &[&["RemoveContainer"]], &[None]);
        if node.is_podless() {
            node.act(&format!("p/{id}"), &[&["RemovePodSandbox"]], &[None]);
        }
        node.way().remove(node.words(&id), patience(&node)).await;
        node.done(&removed);
        node.containers.lock().unwrap().remove(&id);
    }
}

/// Creates a container. Returns whether plugins have approved it.
async fn create(node: &Node, pod: &str, id: &str) -> bool {
    let words = rig::container(pod, id);
    for _ in 0..20 {
        let undone: &[&[&str]] = &[&[], &["CreateContainer", "StopContainer", "RemoveContainer"]];
        let act = node.act(&format!("c/{id}"), undone, &[None]);
        let undone: &[&[&str]] = &[&[], &["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"]];
        let of_pod = node.is_podless().then(|| node.act(&format!("p/{id}"), undone, &[None]));
        if let Ok(Ok(creation)) = timeout(patience(node), node.way().create(words.clone())).await {
            node.pause(300).await;
            if !node.one_in(6) {
                let created = Container { state: ContainerState::Created, ..words };
                node.containers
                    .lock()
                    .unwrap()
                    .insert(id.to_owned(), Has { words: created.clone(), runs: false, is_starting: false });
                node.came_to(&act, &[&["CreateContainer"]], &[Some("created")]);
                of_pod.iter().for_each(|of_pod| node.came_to(of_pod, &[&["RunPodSandbox"]], &[Some("pod")]));
                let _ = creation.created(created).await;
                return true;
            }
        }
        node.pause(2000).await;
    }
    false
}

/// Starts a container. The start may be a restart, may fail, and the container may end right after
/// it.
async fn start(node: &Arc<Node>, id: &str) {
    let (c, p) = (format!("c/{id}"), format!("p/{id}"));
    let Has { words, runs, .. } = node.containers.lock().unwrap()[id].clone();
    if runs && !node.one_in(4) {
        return end(node, id).await;
    }
    let is_first = words.state == ContainerState::Created;
    let act = match (runs, is_first) {
        (true, _) => node.act(&c, &[&[], &["StartContainer"]], &[Some("running")]),
        (false, true) => node.act(&c, &[&[], &["StartContainer"]], &[Some("created"), Some("running")]),
        (false, false) => node.act(&c, &[&[], &["StartContainer", "StopContainer"]], &[None]),
    };
    let is_again = !runs && !is_first;
    let of_pod = (node.is_podless() && is_again).then(|| node.act(&p, &[&[], &["StopPodSandbox"]], &[None]));
    node.set_starting(id, runs);
    let start = timeout(patience(node), node.way().start(words.clone())).await;
    node.set_starting(id, false);
    if let Ok(Ok(start)) = start {
        node.pause(300).await;
        if !node.one_in(3) {
            // If the container has ended meanwhile, its end came after the start.
            node.came_to(&act, &[&["StartContainer"]], &[Some("running")]);
            of_pod.iter().for_each(|of_pod| node.came_to(of_pod, &[&[]], &[Some("pod")]));
            let running = Container { state: ContainerState::Running, ..words };
            if !runs {
                node.containers
                    .lock()
                    .unwrap()
                    .insert(id.to_owned(), Has { words: running.clone(), runs: true, is_starting: false });
            }
            if node.one_in(3) {
                start.commit();
            } else {
                let told = start.started(running);
                if node.one_in(4) {
                    node.exits(id);
                }
                let _ = told.await;
            }
            node.pause(1000).await;
            return;
        }
    }
    if runs {
        return;
    }
    if is_first {
        node.containers.lock().unwrap().get_mut(id).unwrap().words.state = ContainerState::Stopped;
        node.stops(id);
    }
    match node.below(3) {
        0 => {}
        1 => node.way().stop(node.words(id), patience(node)).await,
        _ => node.pause(1000).await,
    }
}

/// Ends a running container: it exits, is stopped, or both.
async fn end(node: &Node, id: &str) {
    let how = node.below(3);
    if how < 2 {
        node.exits(id);
    }
    if how > 0 {
        let ended = node.ends(id);
        node.way().stop(node.words(id), patience(node)).await;
        ended.iter().for_each(|(place, of_pod)| {
            node.done(place);
            of_pod.iter().for_each(|place| node.done(place));
        });
    }
}

/// Updates a container a few times. The requests contain any state.
async fn update(node: Arc<Node>, id: String) {
    let states = [
        ContainerState::Created,
        ContainerState::Running,
        ContainerState::Paused,
        ContainerState::Stopped,
        ContainerState::Unknown,
    ];
    for _ in 0..node.below(5) {
        node.pause(1500).await;
        let state = states[usize::try_from(node.below(5)).unwrap()];
        let words = Container { state, ..node.words(&id) };
        if let Ok(Ok(update)) = timeout(patience(&node), node.way().update(words.clone())).await {
            sleep(Duration::from_millis(node.below(500))).await;
            match node.below(3) {
                0 => drop(update),
                1 => update.commit(),
                _ => _ = update.updated(words).await,
            }
        }
    }
}
