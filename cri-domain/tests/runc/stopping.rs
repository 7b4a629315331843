//! The end of a container of mini-runtime.

use std::time::Duration;

use cri_domain::Runtime as _;
use cri_domain::runtime::{ContainerLimits, RuntimeError};
use serde_json::json;
use tokio::time::sleep;

use crate::bundle::Bundle;
use crate::mini_runc::Runc;

/// Returns a container that has ended, before its exit is noticed.
async fn ended(bundle: &mut Bundle) -> Runc {
    bundle.spec["process"]["args"] = json!(["true"]);
    bundle.spec["root"]["path"] = json!(bundle.path().join("rootfs"));
    let runc = Runc::new(bundle.path());
    let _made = runc.create(&bundle.id, &bundle.spec).await.unwrap();
    runc.start(&bundle.id).await.unwrap();
    while !runc.is_stopped(&bundle.id).await {
        sleep(Duration::from_millis(5)).await;
    }
    runc
}

#[tokio::test]
async fn a_container_that_ends_just_before_it_is_stopped_or_updated_has_gone() {
    let Some(mut bundle) = Bundle::new() else { return };
    let runc = ended(&mut bundle).await;
    let notices = async {
        sleep(Duration::from_millis(300)).await;
        runc.record_exit(&bundle.id);
    };
    let limits = ContainerLimits { resources: json!({"cpu": {"shares": 7}}), rdt: None };
    let (killed, terminated, updated, ()) = tokio::join!(
        runc.stop(&bundle.id, Duration::ZERO),
        runc.stop(&bundle.id, Duration::from_secs(60)),
        runc.update(&bundle.id, &limits),
        notices,
    );
    for done in [killed, terminated, updated] {
        assert!(matches!(done, Err(RuntimeError::Gone)), "{done:?}");
    }
    runc.delete(&bundle.id).await.unwrap();
}
