use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use nri_proto::{Container, ContainerState, Eviction, Pod, Update};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::Namespace;
use crate::domain::{Domain, DomainError, Inventory, KnownPod, PodState};

struct Nothing;

#[async_trait]
impl Domain for Nothing {
    async fn inventory(&self) -> Inventory {
        Inventory::default()
    }

    async fn update(&self, _: Update) -> Result<(), DomainError> {
        Ok(())
    }

    async fn evict(&self, _: Eviction) -> Result<(), DomainError> {
        Ok(())
    }
}

/// Counts warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<AtomicUsize>);

impl Subscriber for Warnings {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.0.fetch_add(usize::from(*event.metadata().level() == Level::WARN), Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn namespace(namespace: &str) -> Namespace {
    Namespace::new(namespace, Arc::new(Nothing), false)
}

/// A pod and a container of it, in these states.
fn inventory(pod_state: PodState, state: ContainerState) -> Inventory {
    let pod = Pod { id: "p".to_owned(), ..Pod::default() };
    let container = Container { id: "c".to_owned(), pod_id: "p".to_owned(), state, ..Container::default() };
    Inventory { pods: vec![KnownPod { pod, state: pod_state }], containers: vec![container] }
}

/// How many warnings there are meanwhile.
fn warnings(act: impl FnOnce()) -> usize {
    let warnings = Warnings::default();
    tracing::subscriber::with_default(warnings.clone(), act);
    warnings.0.load(Ordering::Relaxed)
}

/// How many warnings each of these is, one after the other, when a plugin is to be shown it.
fn check(inventories: &[(PodState, ContainerState)], expected: &[usize]) {
    let namespace = namespace("k8s.io");
    let show = |(pod, container): &(PodState, ContainerState)| {
        warnings(|| _ = namespace.snapshot(inventory(*pod, *container)))
    };
    assert_eq!(inventories.iter().map(show).collect::<Vec<_>>(), expected);
}

#[test]
fn a_state_that_a_domain_does_not_know_is_warned_about_once() {
    let fine = (PodState::Running, ContainerState::Running);
    check(
        &[fine, (PodState::Running, ContainerState::Unknown), (PodState::Unknown, ContainerState::Running)],
        &[0, 1, 0],
    );
    check(&[(PodState::Unknown, ContainerState::Running), (PodState::Running, ContainerState::Unknown)], &[1, 0]);
}

#[test]
fn each_namespace_is_warned_about_once_when_its_inventory_is_first_read() {
    for namespace in [namespace("k8s.io"), namespace("moby")] {
        let unknown = || inventory(PodState::Running, ContainerState::Unknown);
        assert_eq!(warnings(|| namespace.fill(unknown())), 1, "{}", namespace.name);
        assert_eq!(warnings(|| namespace.fill(unknown())), 0, "{}: adopted", namespace.name);
        assert_eq!(warnings(|| _ = namespace.snapshot(unknown())), 0, "{}: shown", namespace.name);
    }
}
