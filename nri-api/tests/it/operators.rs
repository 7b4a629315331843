//! Changes of the configuration while the runtime runs.

use nri_api::testing::FakeDomain;
use nri_api::{Config, Nri};

use crate::rig::{Recorder, Rig, SECOND, config, container, pod, requiring};

#[tokio::test(start_paused = true)]
async fn nri_is_ready_when_all_required_plugins_are_there() {
    let nri = Nri::new(requiring("guard"));
    let _handle = nri.register("k8s.io", FakeDomain::new()).unwrap();
    nri.start().await.unwrap();
    assert_eq!(nri.missing().len(), 1);
    assert!(nri.ready(SECOND).await.is_err());
    nri.admit("10-guard".parse().unwrap(), Recorder::new()).await.unwrap();
    assert_eq!(nri.missing(), []);
    nri.ready(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reloaded_policy_holds_for_the_next_create() {
    let rig = Rig::new().await;
    let create = |id: &'static str| rig.handle.create_container(pod("p"), container("p", id));
    create("c1").await.unwrap().commit().unwrap();
    assert!(rig.nri.reload(&requiring("guard")).is_empty());
    let error = create("c2").await.err().unwrap();
    assert_eq!(error.to_string(), "plugin guard failed to handle CreateContainer request");
    assert_eq!(rig.nri.reload(&Config { max_plugins: 1, ..config() }), ["max_plugins"]);
    create("c2").await.unwrap().commit().unwrap();
}

#[tokio::test(start_paused = true)]
async fn whoever_is_disabled_misses_nobody() {
    let nri = Nri::new(Config { disable: true, ..requiring("guard") });
    assert_eq!(nri.missing(), []);
    nri.ready(SECOND).await.unwrap();
    assert_eq!(nri.reload(&config()), ["disable"], "it stays so");
}
