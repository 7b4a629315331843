use nri_adaptation::Config;
use nri_proto::{Container, ContainerState, Pod};

use super::Handle;
use crate::lifecycle::state::State;
use crate::nri::Nri;
use crate::testing::FakeDomain;

const ID: &str = "c";

fn pod() -> Pod {
    Pod { id: "p".to_owned(), ..Pod::default() }
}

fn container() -> Container {
    Container { id: ID.to_owned(), pod_id: "p".to_owned(), ..Container::default() }
}

fn exited() -> Container {
    Container { state: ContainerState::Stopped, exit_code: 1, ..container() }
}

/// A runtime with one container, which has run and stopped.
async fn stopped() -> (Nri, Handle) {
    let nri = Nri::new(Config { socket: None, plugin_path: None, ..Config::default() });
    let handle = nri.register("k8s.io", FakeDomain::new()).unwrap();
    nri.start().await.unwrap();
    handle.run_pod(pod()).await.unwrap().commit();
    handle.create_container(pod(), container()).await.unwrap().created(container()).await.unwrap();
    handle.start_container(pod(), container()).await.unwrap().commit();
    handle.container_exited(pod(), exited());
    handle.container_ended(ID).await;
    (nri, handle)
}

/// How many exits are recorded of the container.
fn exits(handle: &Handle) -> usize {
    let client = handle.client.as_ref().unwrap();
    client.namespace.containers.read(ID, |entry| entry.info.exits.len()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_thousand_restarts_that_fail_leave_at_most_one_exit() {
    let (nri, handle) = stopped().await;
    for number in 0..1000 {
        let start = handle.start_container(pod(), container()).await.unwrap();
        // The container exits before the start has failed, or after that, or both.
        if number % 2 == 0 {
            handle.container_exited(pod(), exited());
        }
        drop(start);
        if number % 3 == 0 {
            handle.container_exited(pod(), exited());
        }
    }
    handle.container_ended(ID).await;
    assert_eq!(handle.container_state(ID), Some(State::Stopped));
    assert!(exits(&handle) <= 1, "{} exits", exits(&handle));
    nri.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_exit_during_a_restart_that_succeeds_is_kept_until_plugins_were_told() {
    let (nri, handle) = stopped().await;
    for _ in 0..1000 {
        let start = handle.start_container(pod(), container()).await.unwrap();
        handle.container_exited(pod(), exited());
        start.commit();
        handle.container_ended(ID).await;
        assert_eq!(handle.container_state(ID), Some(State::Stopped));
        assert_eq!(exits(&handle), 0);
    }
    nri.stop().await;
}
