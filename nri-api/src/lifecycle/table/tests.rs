use std::pin::pin;
use std::sync::Arc;

use futures_util::poll;
use nri_adaptation::{Config, NoMetrics};
use nri_proto::Pod;

use super::Table;
use crate::instance::Node;
use crate::lifecycle::state::{Deed, Goal, Run, State, Step};

#[tokio::test]
async fn whoever_claims_waits_until_the_request_of_the_claim_before_was_made() {
    let table = Table::default();
    assert!(table.enter("c", State::Running, Run(1), || ()));
    let (step, stop) = table.claim("c", Goal::Stopped, Run::LAST).await.unwrap();
    assert_eq!(step, Step::Stop);
    let mut remove = pin!(table.claim("c", Goal::Removed, Run::LAST));
    assert!(poll!(remove.as_mut()).is_pending());
    assert!(table.claim_post("c", Deed::Create).await.is_none(), "it is too late for that");
    assert!(poll!(remove.as_mut()).is_pending(), "what came to nothing frees nobody");
    let node = Node::new(Config::default(), Arc::new(NoMetrics));
    let operation = Arc::new(node.adaptation.begin(Pod::default()));
    let mut request = Box::pin(stop.make(&operation, std::future::pending::<()>()));
    assert!(poll!(request.as_mut()).is_pending());
    let (step, _remove) = remove.await.unwrap();
    assert_eq!(step, Step::Remove, "the Stop has its place, although it is not told yet");
}
