use std::pin::pin;
use std::sync::Arc;

use futures_util::poll;
use nri_adaptation::{Config, NoMetrics};
use nri_proto::Pod;

use super::Table;
use crate::instance::Instance;
use crate::lifecycle::state::{Completion, EndGoal, EndStep, RunId, State};

#[tokio::test]
async fn whoever_claims_waits_until_the_request_of_the_claim_before_was_made() {
    let table = Table::default();
    assert!(table.enter("c", State::Running, RunId(1), || ()));
    let (step, stop) = table.claim("c", EndGoal::Stopped, RunId::LAST).await.unwrap();
    assert_eq!(step, EndStep::Stop);
    let mut remove = pin!(table.claim("c", EndGoal::Removed, RunId::LAST));
    assert!(poll!(remove.as_mut()).is_pending());
    assert!(table.claim_post("c", Completion::Create).await.is_none(), "it is too late for that");
    assert!(poll!(remove.as_mut()).is_pending(), "what came to nothing frees nobody");
    let instance = Instance::new(Config::default(), Arc::new(NoMetrics));
    let operation = Arc::new(instance.adaptation.begin(Pod::default()));
    let mut request = Box::pin(stop.make(&operation, std::future::pending::<()>()));
    assert!(poll!(request.as_mut()).is_pending());
    let (step, _remove) = remove.await.unwrap();
    assert_eq!(step, EndStep::Remove, "the Stop has its place, although it is not told yet");
}
