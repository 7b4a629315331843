//! The contract of [`Domain`] as a set of rules that any domain can be checked against.

use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use futures_util::poll;
use nri_proto::{Container, ContainerState, Eviction, Resources, Update};
use tokio::time::{sleep, timeout};

use crate::domain::{Domain, DomainError, Inventory, PodState};

/// How long the check of one rule may take, by Tokio's clock.
const LIMIT: Duration = Duration::from_secs(30);
/// How often a condition is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How many calls run concurrently.
const N_CALLS: usize = 16;

/// A domain to check, and how the test makes its runtime run and remove containers.
#[async_trait]
pub trait Fixture: Sync {
    /// Returns the domain.
    fn domain(&self) -> &dyn Domain;

    /// Makes the runtime run a pod with one running container. Returns the ids of the pod and the
    /// container. `name` has no meaning for the runtime and is different in each call.
    async fn run(&self, name: &str) -> (String, String);

    /// Makes the runtime remove the pod and the container.
    async fn remove(&self, pod: &str, container: &str);

    /// Returns whether the domain is [without pods](crate::Nri::register_podless).
    fn is_podless(&self) -> bool {
        false
    }
}

/// A rule that a domain breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The rule.
    pub rule: &'static str,
    /// The observation that shows the breach.
    pub seen: String,
}

impl Display for Breach {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.seen)
    }
}

type RuleOutcome = Result<(), String>;

/// Checks a domain against all rules of the contract. Returns the rules that the domain breaks.
pub async fn check(fixture: &dyn Fixture) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut note = |rule: &'static str, kept: Result<RuleOutcome, tokio::time::error::Elapsed>| match kept {
        Ok(Ok(())) => {}
        Ok(Err(seen)) => breaches.push(Breach { rule, seen }),
        Err(_) => breaches.push(Breach { rule, seen: format!("no result within {LIMIT:?}") }),
    };
    note("the inventory contains each running object once", timeout(LIMIT, check_inventory(fixture)).await);
    note("a lookup by id returns what the inventory contains", timeout(LIMIT, check_lookup(fixture)).await);
    note("the inventory contains no removed object", timeout(LIMIT, check_removal(fixture)).await);
    note(
        "the inventory shows an update, and limits that are not set stay",
        timeout(LIMIT, check_update(fixture)).await,
    );
    note("a change of an unknown container returns Gone", timeout(LIMIT, check_unknown(fixture)).await);
    note("an evicted container stops, and may be evicted again", timeout(LIMIT, check_eviction(fixture)).await);
    note("concurrent calls do not block each other", timeout(LIMIT, check_concurrency(fixture)).await);
    note("a dropped call leaves nothing locked", timeout(LIMIT, check_dropped_calls(fixture)).await);
    breaches
}

async fn check_inventory(fixture: &dyn Fixture) -> RuleOutcome {
    let (pod, container) = fixture.run("shown").await;
    let inventory = fixture.domain().inventory().await;
    let mut ids = HashSet::new();
    let all = inventory.pods.iter().map(|known| &known.pod.id).chain(inventory.containers.iter().map(|c| &c.id));
    if let Some(twice) = all.clone().find(|id| !ids.insert(id.as_str())) {
        return Err(format!("the inventory contains {twice} twice"));
    }
    if !fixture.is_podless() {
        let known = inventory.pods.iter().find(|known| known.pod.id == pod);
        let state = known.map(|known| known.state);
        expect(state == Some(PodState::Running), || format!("the pod is {state:?}"))?;
    }
    let found = find(&inventory, &container).ok_or("there is no such container")?;
    expect(found.state == ContainerState::Running, || format!("the container is {:?}", found.state))?;
    expect(fixture.is_podless() || found.pod_id == pod, || format!("the container is in pod {}", found.pod_id))?;
    fixture.remove(&pod, &container).await;
    Ok(())
}

async fn check_lookup(fixture: &dyn Fixture) -> RuleOutcome {
    let (pod, container) = fixture.run("found").await;
    let (other_pod, other) = fixture.run("another").await;
    let found = fixture.domain().containers(&[container.clone(), "there-is-none".to_owned()]).await;
    let ids: Vec<_> = found.iter().map(|container| &container.id).collect();
    expect(ids == [&container], || format!("a lookup of {container} returns {ids:?}"))?;
    let inventory = fixture.domain().inventory().await;
    let shown = find(&inventory, &container);
    expect(shown == found.first(), || format!("{:?} is {shown:?} in the inventory", found.first()))?;
    fixture.remove(&pod, &container).await;
    fixture.remove(&other_pod, &other).await;
    Ok(())
}

async fn check_removal(fixture: &dyn Fixture) -> RuleOutcome {
    let (pod, container) = fixture.run("removed").await;
    fixture.remove(&pod, &container).await;
    let inventory = fixture.domain().inventory().await;
    expect(find(&inventory, &container).is_none(), || "the inventory still contains the container".to_owned())?;
    expect(inventory.pods.iter().all(|known| known.pod.id != pod), || "the inventory still contains the pod".to_owned())
}

async fn check_update(fixture: &dyn Fixture) -> RuleOutcome {
    let (pod, container) = fixture.run("updated").await;
    let domain = fixture.domain();
    let limits = |set: &dyn Fn(&mut Resources)| {
        let mut resources = Resources::default();
        set(&mut resources);
        Update::new(container.clone(), resources)
    };
    let shares = limits(&|resources| resources.cpu_mut().shares = Some(512));
    let quota = limits(&|resources| resources.cpu_mut().quota = Some(50_000));
    domain.update(shares).await.map_err(|error| error.to_string())?;
    domain.update(quota).await.map_err(|error| error.to_string())?;
    let inventory = domain.inventory().await;
    let found = find(&inventory, &container).ok_or("there is no such container")?;
    let resources = found.linux.as_ref().and_then(|linux| linux.resources.clone()).unwrap_or_default();
    let cpu = resources.cpu.unwrap_or_default();
    let seen = || format!("in its linux.resources.cpu, shares are {:?}, the quota is {:?}", cpu.shares, cpu.quota);
    expect(cpu.shares == Some(512) && cpu.quota == Some(50_000), seen)?;
    fixture.remove(&pod, &container).await;
    Ok(())
}

async fn check_unknown(fixture: &dyn Fixture) -> RuleOutcome {
    let (pod, container) = fixture.run("gone").await;
    fixture.remove(&pod, &container).await;
    let domain = fixture.domain();
    for id in [container.as_str(), "an-unknown-container"] {
        let updated = domain.update(Update::new(id, Resources::default())).await;
        expect(matches!(updated, Err(DomainError::Gone)), || format!("an update of {id} returned {updated:?}"))?;
        let evicted = domain.evict(Eviction::new(id, "a test")).await;
        expect(matches!(evicted, Err(DomainError::Gone)), || format!("an eviction of {id} returned {evicted:?}"))?;
    }
    Ok(())
}

async fn check_eviction(fixture: &dyn Fixture) -> RuleOutcome {
    let (pod, container) = fixture.run("evicted").await;
    let domain = fixture.domain();
    domain.evict(Eviction::new(&container, "a test")).await.map_err(|error| error.to_string())?;
    loop {
        let inventory = domain.inventory().await;
        if find(&inventory, &container).is_none_or(|found| found.state == ContainerState::Stopped) {
            break;
        }
        sleep(POLL_INTERVAL).await;
    }
    let again = domain.evict(Eviction::new(&container, "a test")).await;
    expect(matches!(again, Ok(()) | Err(DomainError::Gone)), || format!("the second eviction returned {again:?}"))?;
    fixture.remove(&pod, &container).await;
    Ok(())
}

async fn check_concurrency(fixture: &dyn Fixture) -> RuleOutcome {
    let (pod, container) = fixture.run("busy").await;
    let (other_pod, other) = fixture.run("busy-too").await;
    let domain = fixture.domain();
    let calls = (0..N_CALLS).map(|_| async {
        let (updated, _) =
            tokio::join!(domain.update(Update::new(&container, Resources::default())), domain.inventory());
        updated
    });
    let (updated, evicted) = tokio::join!(join_all(calls), domain.evict(Eviction::new(&other, "a test")));
    let failed: Vec<_> = updated.into_iter().filter_map(Result::err).collect();
    expect(failed.is_empty() && evicted.is_ok(), || format!("updates: {failed:?}, eviction: {evicted:?}"))?;
    fixture.remove(&other_pod, &other).await;
    fixture.remove(&pod, &container).await;
    Ok(())
}

async fn check_dropped_calls(fixture: &dyn Fixture) -> RuleOutcome {
    let (pod, container) = fixture.run("given-up").await;
    let domain = fixture.domain();
    let mut update = domain.update(Update::new(&container, Resources::default()));
    let _ = poll!(&mut update);
    drop(update);
    let mut inventory = domain.inventory();
    let _ = poll!(&mut inventory);
    drop(inventory);
    domain.update(Update::new(&container, Resources::default())).await.map_err(|error| error.to_string())?;
    expect(find(&domain.inventory().await, &container).is_some(), || "the inventory lost the container".to_owned())?;
    fixture.remove(&pod, &container).await;
    Ok(())
}

fn find<'i>(inventory: &'i Inventory, id: &str) -> Option<&'i Container> {
    inventory.containers.iter().find(|container| container.id == id)
}

fn expect(holds: bool, seen: impl FnOnce() -> String) -> RuleOutcome {
    if holds { Ok(()) } else { Err(seen()) }
}
