use std::pin::pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::poll;
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::{Adaptation, Config, Source, UpdatesFailed};
use nri_proto::{Eviction, PluginId, Pod, Update};

use super::Table;
use crate::lifecycle::state::State;
use crate::lifecycle::steps::{Completion, EndGoal, EndStep, RunId};

/// A runtime that has no containers.
struct Empty;

#[async_trait]
impl Source for Empty {
    async fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }

    async fn apply(&self, _: &PluginId, _: Vec<Update>, _: Vec<Eviction>) -> Result<Vec<Update>, UpdatesFailed> {
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn whoever_claims_waits_until_the_request_of_the_claim_before_was_made() {
    let table = Table::default();
    assert!(table.enter("c", State::Running, RunId(1), || ()));
    let (step, stop) = table.claim_end("c", EndGoal::Stopped, RunId::LAST).await.unwrap();
    assert_eq!(step, EndStep::Stop);
    let mut remove = pin!(table.claim_end("c", EndGoal::Removed, RunId::LAST));
    assert!(poll!(remove.as_mut()).is_pending());
    assert!(table.claim_post("c", Completion::Create).await.is_none(), "the event is outdated");
    assert!(poll!(remove.as_mut()).is_pending(), "a skipped event releases no claim");
    let adaptation = Adaptation::new(Config::default(), Arc::new(Empty));
    let operation = Arc::new(adaptation.begin(Pod::default()));
    let mut request = Box::pin(stop.send(&operation, std::future::pending::<()>()));
    assert!(poll!(request.as_mut()).is_pending());
    let (step, _remove) = remove.await.unwrap();
    assert_eq!(step, EndStep::Remove, "the Stop has its place, although it is not delivered yet");
}

#[tokio::test]
async fn whoever_waits_for_an_end_does_not_wait_for_another_object_of_the_same_id() {
    let table = Table::default();
    assert!(table.enter("c", State::Running, table.next_run(), || ()));
    let mut ended = pin!(table.wait_until_ended("c"));
    assert!(poll!(ended.as_mut()).is_pending());
    table.entries.remove("c");
    assert!(table.enter("c", State::Running, table.next_run(), || ()));
    table.changed.notify_waiters();
    assert!(poll!(ended.as_mut()).is_ready());
    assert!(poll!(pin!(table.wait_until_ended("c"))).is_pending());
}
