//! What every domain is to do, as tests that any can be put through.

use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use futures_util::poll;
use nri_proto::{Container, ContainerState, Eviction, Resources, Update};
use tokio::time::{sleep, timeout};

use crate::domain::{Domain, DomainError, Inventory, PodState};

/// How long one rule may take to be seen to, by Tokio's clock.
const LIMIT: Duration = Duration::from_secs(30);
/// How often it is looked whether something has happened.
const LOOK: Duration = Duration::from_millis(20);
/// How many callers there are at a time.
const MANY: usize = 16;

/// A domain that is put through the contract, and how its runtime is made to have something.
#[async_trait]
pub trait Fixture: Sync {
    /// The domain.
    fn domain(&self) -> &dyn Domain;

    /// Has the runtime run a pod with one container, which runs. Returns the ids of both. `name` is for the test alone, and a new one each time.
    async fn run(&self, name: &str) -> (String, String);

    /// Has the runtime remove both again.
    async fn remove(&self, pod: &str, container: &str);

    /// Whether it is a domain [without pods](crate::Nri::register_podless).
    fn is_podless(&self) -> bool {
        false
    }
}

/// A rule that a domain does not keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The rule.
    pub rule: &'static str,
    /// What was seen.
    pub seen: String,
}

impl Display for Breach {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.seen)
    }
}

type RuleOutcome = Result<(), String>;

/// Puts a domain through the contract. Returns what it does not keep of it.
pub async fn check(fixture: &dyn Fixture) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut note = |rule: &'static str, kept: Result<RuleOutcome, tokio::time::error::Elapsed>| match kept {
        Ok(Ok(())) => {}
        Ok(Err(seen)) => breaches.push(Breach { rule, seen }),
        Err(_) => breaches.push(Breach { rule, seen: format!("nothing within {LIMIT:?}") }),
    };
    note("the inventory has what runs, each once", timeout(LIMIT, shows(fixture)).await);
    note("what is asked for by id is what the inventory has", timeout(LIMIT, finds(fixture)).await);
    note("the inventory has nothing that was removed", timeout(LIMIT, forgets(fixture)).await);
    note("an update is seen in the inventory, and what it does not set stays", timeout(LIMIT, updates(fixture)).await);
    note("what is not there has gone", timeout(LIMIT, has_gone(fixture)).await);
    note("what is evicted stops, and may be evicted again", timeout(LIMIT, evicts(fixture)).await);
    note("many callers at a time do not keep each other waiting", timeout(LIMIT, bears_many(fixture)).await);
    note("a call that is given up leaves nothing locked", timeout(LIMIT, bears_loss(fixture)).await);
    breaches
}

async fn shows(fixture: &dyn Fixture) -> RuleOutcome {
    let (pod, container) = fixture.run("shown").await;
    let inventory = fixture.domain().inventory().await;
    let mut ids = HashSet::new();
    let all = inventory.pods.iter().map(|known| &known.pod.id).chain(inventory.containers.iter().map(|c| &c.id));
    if let Some(twice) = all.clone().find(|id| !ids.insert(id.as_str())) {
        return Err(format!("{twice} is there twice"));
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

async fn finds(fixture: &dyn Fixture) -> RuleOutcome {
    let (pod, container) = fixture.run("found").await;
    let (other_pod, other) = fixture.run("another").await;
    let found = fixture.domain().containers(&[container.clone(), "there-is-none".to_owned()]).await;
    let ids: Vec<_> = found.iter().map(|container| &container.id).collect();
    expect(ids == [&container], || format!("asked for {container}, it has {ids:?}"))?;
    let inventory = fixture.domain().inventory().await;
    let shown = find(&inventory, &container);
    expect(shown == found.first(), || format!("{:?} is {shown:?} in the inventory", found.first()))?;
    fixture.remove(&pod, &container).await;
    fixture.remove(&other_pod, &other).await;
    Ok(())
}

async fn forgets(fixture: &dyn Fixture) -> RuleOutcome {
    let (pod, container) = fixture.run("removed").await;
    fixture.remove(&pod, &container).await;
    let inventory = fixture.domain().inventory().await;
    expect(find(&inventory, &container).is_none(), || "the container is still there".to_owned())?;
    expect(inventory.pods.iter().all(|known| known.pod.id != pod), || "the pod is still there".to_owned())
}

async fn updates(fixture: &dyn Fixture) -> RuleOutcome {
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

async fn has_gone(fixture: &dyn Fixture) -> RuleOutcome {
    let (pod, container) = fixture.run("gone").await;
    fixture.remove(&pod, &container).await;
    let domain = fixture.domain();
    for id in [container.as_str(), "nobody-has-ever-heard-of-this"] {
        let updated = domain.update(Update::new(id, Resources::default())).await;
        expect(matches!(updated, Err(DomainError::Gone)), || format!("an update of {id} came to {updated:?}"))?;
        let evicted = domain.evict(Eviction::new(id, "a test")).await;
        expect(matches!(evicted, Err(DomainError::Gone)), || format!("an eviction of {id} came to {evicted:?}"))?;
    }
    Ok(())
}

async fn evicts(fixture: &dyn Fixture) -> RuleOutcome {
    let (pod, container) = fixture.run("evicted").await;
    let domain = fixture.domain();
    domain.evict(Eviction::new(&container, "a test")).await.map_err(|error| error.to_string())?;
    loop {
        let inventory = domain.inventory().await;
        if find(&inventory, &container).is_none_or(|found| found.state == ContainerState::Stopped) {
            break;
        }
        sleep(LOOK).await;
    }
    let again = domain.evict(Eviction::new(&container, "a test")).await;
    expect(matches!(again, Ok(()) | Err(DomainError::Gone)), || format!("the second time came to {again:?}"))?;
    fixture.remove(&pod, &container).await;
    Ok(())
}

async fn bears_many(fixture: &dyn Fixture) -> RuleOutcome {
    let (pod, container) = fixture.run("busy").await;
    let (other_pod, other) = fixture.run("busy-too").await;
    let domain = fixture.domain();
    let calls = (0..MANY).map(|_| async {
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

async fn bears_loss(fixture: &dyn Fixture) -> RuleOutcome {
    let (pod, container) = fixture.run("given-up").await;
    let domain = fixture.domain();
    let mut update = domain.update(Update::new(&container, Resources::default()));
    let _ = poll!(&mut update);
    drop(update);
    let mut inventory = domain.inventory();
    let _ = poll!(&mut inventory);
    drop(inventory);
    domain.update(Update::new(&container, Resources::default())).await.map_err(|error| error.to_string())?;
    expect(find(&domain.inventory().await, &container).is_some(), || "the container is not there any more".to_owned())?;
    fixture.remove(&pod, &container).await;
    Ok(())
}

fn find<'i>(inventory: &'i Inventory, id: &str) -> Option<&'i Container> {
    inventory.containers.iter().find(|container| container.id == id)
}

fn expect(holds: bool, seen: impl FnOnce() -> String) -> RuleOutcome {
    if holds { Ok(()) } else { Err(seen()) }
}
