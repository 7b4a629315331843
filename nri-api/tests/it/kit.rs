//! Tests of the contract check itself: it must report the rules that a faulty domain breaks.

use std::sync::Arc;

use async_trait::async_trait;
use nri_api::testing::contract::{self, Fixture};
use nri_api::testing::{FakeBehavior, FakeDomain};
use nri_api::{Container, ContainerState, Domain, DomainError, Eviction, Inventory, Update};

/// The fault of a domain.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    ShowsTwice,
    NeverForgets,
    IgnoresUpdates,
    UpdatesAnything,
    IgnoresEvictions,
    LocksForGood,
}

struct Faulty {
    domain: Arc<FakeDomain>,
    fault: Fault,
    lock: tokio::sync::Mutex<()>,
}

#[async_trait]
impl Domain for Faulty {
    async fn inventory(&self) -> Inventory {
        let mut inventory = self.domain.inventory().await;
        if self.fault == Fault::ShowsTwice {
            inventory.containers.extend(inventory.containers.clone());
        }
        inventory
    }

    async fn update(&self, update: Update) -> Result<(), DomainError> {
        match self.fault {
            Fault::IgnoresUpdates => self.domain.container(&update.container_id).map(drop).ok_or(DomainError::Gone),
            Fault::UpdatesAnything => Ok(()),
            Fault::LocksForGood => {
                std::mem::forget(self.lock.lock().await);
                self.domain.update(update).await
            }
            Fault::None | Fault::ShowsTwice | Fault::NeverForgets | Fault::IgnoresEvictions => {
                self.domain.update(update).await
            }
        }
    }

    async fn evict(&self, eviction: Eviction) -> Result<(), DomainError> {
        if self.fault == Fault::IgnoresEvictions {
            return self.domain.container(&eviction.container_id).map(drop).ok_or(DomainError::Gone);
        }
        self.domain.evict(eviction).await
    }
}

#[async_trait]
impl Fixture for Faulty {
    fn domain(&self) -> &dyn Domain {
        self
    }

    async fn run(&self, name: &str) -> (String, String) {
        self.domain.run(name).await
    }

    async fn remove(&self, pod: &str, container: &str) {
        if self.fault != Fault::NeverForgets {
            self.domain.remove(pod, container).await;
        }
    }
}

/// Checks a domain with this fault, and returns the rules that it breaks.
async fn check(fault: Fault) -> Vec<&'static str> {
    let faulty = Faulty { domain: FakeDomain::new(), fault, lock: tokio::sync::Mutex::default() };
    contract::check(&faulty).await.into_iter().map(|breach| breach.rule).collect()
}

#[tokio::test(start_paused = true)]
async fn a_domain_that_keeps_the_contract_passes() {
    assert_eq!(check(Fault::None).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn each_fault_is_found() {
    let found = |fault, rule: &'static str| async move {
        let broken = check(fault).await;
        assert!(broken.iter().any(|broken| broken.contains(rule)), "{fault:?}: {broken:?}");
    };
    found(Fault::ShowsTwice, "each running object once").await;
    found(Fault::NeverForgets, "no removed object").await;
    found(Fault::IgnoresUpdates, "shows an update").await;
    found(Fault::UpdatesAnything, "returns Gone").await;
    found(Fault::IgnoresEvictions, "an evicted container stops").await;
    found(Fault::LocksForGood, "concurrent calls").await;
}

#[tokio::test(start_paused = true)]
async fn a_fake_domain_does_as_it_is_told() {
    let domain = FakeDomain::new();
    domain.put(Container { id: "c".to_owned(), state: ContainerState::Running, ..Container::default() });
    domain.behave(FakeBehavior::Fails);
    assert!(matches!(domain.update(Update::of("c")).await, Err(DomainError::Failed(_))));
    assert!(matches!(domain.evict(Eviction::new("c", "")).await, Err(DomainError::Failed(_))));
    assert_eq!((domain.updates().len(), domain.evictions().len()), (1, 1));
    assert_eq!(domain.inventory().await.containers.len(), 1);
}
