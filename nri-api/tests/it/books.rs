//! A plugin that tracks the state of each pod and container joins again and again while many pods
//! live and die. Its snapshot and its events must be consistent.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nri_api::plugin::{Introduction, Plugin, PluginError, Reply, Subscription};
use nri_api::proto::event::WireEvents;
use nri_api::proto::{EventMask, FailurePolicy, StopReply};
use nri_api::request::Request;
use nri_api::snapshot::Snapshot;
use nri_api::{ContainerState, Event, Update};

use crate::rig::{Rig, container, exited, pod, running};

const TASKS: usize = 8;
const LIVES: usize = 30;

/// The last event that a plugin has seen of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    Created,
    PostCreated,
    Started,
    PostStarted,
    Stopped,
}

/// The pods and containers that a plugin knows, and the contradictions that it has found.
#[derive(Default)]
struct Books {
    pods: BTreeMap<String, bool>,
    containers: BTreeMap<String, Known>,
    faults: Vec<String>,
    is_open: bool,
}

#[derive(Default)]
struct Keeper(Mutex<Books>);

impl Books {
    fn open(&mut self, snapshot: &Snapshot) {
        *self = Self { faults: std::mem::take(&mut self.faults), is_open: true, ..Self::default() };
        self.pods = snapshot.pods.iter().map(|pod| (pod.id.clone(), true)).collect();
        for shown in &snapshot.containers {
            let known = if shown.state == ContainerState::Running { Known::PostStarted } else { Known::PostCreated };
            if self.containers.insert(shown.id.clone(), known).is_some() {
                self.faults.push(format!("{} is shown twice", shown.id));
            }
            if !self.pods.contains_key(&shown.pod_id) {
                self.faults.push(format!("{} is shown without its pod", shown.id));
            }
        }
    }

    fn hear(&mut self, event: Event, pod: &str, id: Option<&str>) {
        let id = id.unwrap_or_default();
        let before = self.containers.get(id).copied();
        let pod_before = self.pods.get(pod).copied();
        let fits = match event {
            Event::RunPodSandbox => self.pods.insert(pod.to_owned(), true).is_none(),
            Event::StopPodSandbox => {
                let mut inside = self.containers.iter().filter(|(other, _)| other.starts_with(pod));
                let all_stopped = inside.all(|(_, known)| *known == Known::Stopped);
                all_stopped && self.pods.insert(pod.to_owned(), false) == Some(true)
            }
            // A stopped pod is in a snapshot only while the pod is being removed. Its Remove is
            // sent in any case.
            Event::RemovePodSandbox => {
                self.pods.remove(pod);
                !self.containers.keys().any(|other| other.starts_with(pod))
            }
            Event::CreateContainer => pod_before == Some(true) && self.write(id, Known::Created).is_none(),
            // A plugin that joined after the create has seen the container in its snapshot.
            Event::PostCreateContainer => {
                self.write(id, Known::PostCreated).is_some_and(|was| was <= Known::PostCreated)
            }
            Event::StartContainer => {
                let was = self.write(id, Known::Started);
                matches!(was, Some(Known::Created | Known::PostCreated))
            }
            Event::PostStartContainer => {
                let was = self.write(id, Known::PostStarted);
                matches!(was, Some(Known::Started | Known::PostStarted))
            }
            Event::StopContainer => self.write(id, Known::Stopped).is_some_and(|was| was < Known::Stopped),
            Event::RemoveContainer => self.containers.remove(id).is_none_or(|was| was == Known::Stopped),
            Event::UpdatePodSandbox
            | Event::PostUpdatePodSandbox
            | Event::UpdateContainer
            | Event::PostUpdateContainer
            | Event::ValidateContainerAdjustment => true,
        };
        if !fits && self.is_open {
            self.faults.push(format!("{} of {pod} {id} after {before:?} in {pod_before:?}", event.rpc()));
        }
    }

    fn write(&mut self, id: &str, known: Known) -> Option<Known> {
        self.containers.insert(id.to_owned(), known)
    }
}

impl Keeper {
    /// Returns whether the plugin knows no pod and no container any more.
    fn is_empty(&self) -> bool {
        let books = self.0.lock().unwrap();
        books.pods.is_empty() && books.containers.is_empty()
    }
}

#[async_trait]
impl Plugin for Keeper {
    async fn configure(&self, _: Introduction) -> Result<Subscription, PluginError> {
        let mut known = EventMask::ALL;
        known.remove(Event::ValidateContainerAdjustment);
        Ok(Subscription { events: WireEvents { known, unknown: 0 }, declared: FailurePolicy::default() })
    }

    async fn synchronize(&self, snapshot: Snapshot) -> Result<Vec<Update>, PluginError> {
        self.0.lock().unwrap().open(&snapshot);
        Ok(Vec::new())
    }

    async fn ask(self: Arc<Self>, request: Arc<Request>, _: Duration) -> Result<Reply, PluginError> {
        let id = request.container().map(|container| &*container.id);
        self.0.lock().unwrap().hear(request.event(), &request.pod().id, id);
        tokio::task::yield_now().await;
        Ok(match request.event() {
            Event::CreateContainer => Reply::Create(Box::default()),
            Event::StopContainer => Reply::Stop(StopReply::default()),
            Event::RunPodSandbox
            | Event::StopPodSandbox
            | Event::RemovePodSandbox
            | Event::PostCreateContainer
            | Event::StartContainer
            | Event::PostStartContainer
            | Event::UpdateContainer
            | Event::PostUpdateContainer
            | Event::RemoveContainer
            | Event::UpdatePodSandbox
            | Event::PostUpdatePodSandbox
            | Event::ValidateContainerAdjustment => Reply::Heard,
        })
    }
}

/// Runs a pod with two containers through its whole life. `number` determines how the containers
/// end.
async fn live(rig: &Rig, number: usize) {
    let pod_id = format!("p{number}-");
    rig.run_pod(&pod_id).await;
    let ids = [format!("{pod_id}a"), format!("{pod_id}b")];
    let starts = !number.is_multiple_of(7);
    let words = |id: &str| if starts { running(&pod_id, id) } else { container(&pod_id, id) };
    for id in &ids {
        rig.create(&pod_id, id).await;
        if starts {
            let start = rig.handle.start_container(pod(&pod_id), container(&pod_id, id)).await.unwrap();
            rig.domain.put(running(&pod_id, id));
            if number.is_multiple_of(5) {
                rig.handle.container_exited(pod(&pod_id), exited(&pod_id, id, 1));
            }
            start.started(running(&pod_id, id)).await.unwrap();
        }
    }
    drop(rig.handle.create_container(pod(&pod_id), container(&pod_id, &format!("{pod_id}c"))).await.unwrap());
    match number % 4 {
        0 if starts => {
            for id in &ids {
                rig.handle.container_exited(pod(&pod_id), exited(&pod_id, id, 0));
            }
        }
        0 | 1 => rig.handle.stop_container(pod(&pod_id), words(&ids[0])).await.unwrap(),
        2 => rig.handle.remove_container(pod(&pod_id), words(&ids[1])).await.unwrap(),
        _ => rig.handle.stop_pod(pod(&pod_id)).await.unwrap(),
    }
    rig.handle.remove_pod(pod(&pod_id)).await.unwrap();
    for id in &ids {
        rig.domain.forget(id);
    }
    rig.domain.forget_pod(&pod_id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn books_add_up_whenever_a_plugin_joins_while_pods_live_and_die() {
    let rig = Arc::new(Rig::new().await);
    let is_over = Arc::new(AtomicBool::new(false));
    let joining = {
        let (rig, is_over) = (Arc::clone(&rig), Arc::clone(&is_over));
        tokio::spawn(async move {
            let mut keepers = Vec::new();
            while !is_over.load(Ordering::Relaxed) || keepers.len() < 3 {
                // Each keeper replaces the previous one, which gets no more events.
                let keeper = Arc::new(Keeper::default());
                rig.nri.admit("20-keeper".parse().unwrap(), keeper.clone()).await.unwrap();
                keepers.push(keeper);
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
            keepers
        })
    };
    let living: Vec<_> = (0..TASKS)
        .map(|task| {
            let rig = Arc::clone(&rig);
            tokio::spawn(async move {
                for number in 0..LIVES {
                    live(&rig, task * LIVES + number).await;
                }
            })
        })
        .collect();
    for living in living {
        living.await.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    let keepers = joining.await.unwrap();
    let last = keepers.last().unwrap();
    // The last keeper may still have to receive ends from the time in which it joined, and `stop`
    // does not wait for that.
    let hears_all = async {
        while !last.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let heard = tokio::time::timeout(Duration::from_secs(30), hears_all).await;
    rig.nri.stop().await;
    for keeper in &keepers {
        let books = keeper.0.lock().unwrap();
        assert_eq!(books.faults, [""; 0]);
    }
    let last = last.0.lock().unwrap();
    assert!(heard.is_ok(), "{:?} {:?}", last.pods, last.containers);
}
