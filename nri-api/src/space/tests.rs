use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use nri_proto::{Container, ContainerState, Eviction, Pod, Update};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::Space;
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

/// How many warnings each of these is, one after the other.
fn check(inventories: &[(PodState, ContainerState)], expected: &[usize]) {
    let space = Space::new("k8s.io", Arc::new(Nothing), false);
    let warnings = Warnings::default();
    let counts: Vec<_> = tracing::subscriber::with_default(warnings.clone(), || {
        let one = |(pod_state, state): &(PodState, ContainerState)| {
            let pod = Pod { id: "p".to_owned(), ..Pod::default() };
            let container =
                Container { id: "c".to_owned(), pod_id: "p".to_owned(), state: *state, ..Container::default() };
            let pods = vec![KnownPod { pod, state: *pod_state }];
            let _ = space.show(Inventory { pods, containers: vec![container] });
            warnings.0.swap(0, Ordering::Relaxed)
        };
        inventories.iter().map(one).collect()
    });
    assert_eq!(counts, expected);
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
