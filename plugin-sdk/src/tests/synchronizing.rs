use bytes::Bytes;
use nri_proto::api;
use protobuf::Message;

use super::fake::{FakeRuntime, Manner, Running, introduction, pair, starts};
use crate::{Connection, Options};

fn part(n_pods: usize, containers: &[&str], more: bool) -> api::SynchronizeRequest {
    api::SynchronizeRequest {
        pods: vec![api::PodSandbox::new(); n_pods],
        containers: (containers.iter())
            .map(|id| api::Container { id: (*id).to_owned(), ..Default::default() })
            .collect(),
        more,
        ..Default::default()
    }
}

async fn configured(runtime: &FakeRuntime) {
    runtime.registered().await;
    let _: api::ConfigureResponse = runtime.call("Configure", &introduction()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn parts_are_put_together_and_the_last_is_answered_with_updates() {
    let (runtime, running) = pair(Manner::Accepts, starts());
    configured(&runtime).await;
    for (containers, more) in [(["a"], true), (["b"], true), (["c"], false)] {
        let answer: api::SynchronizeResponse = runtime.call("Synchronize", &part(1, &containers, more)).await.unwrap();
        assert_eq!(answer.more, more);
        let updated: Vec<_> = answer.update.iter().map(|update| &*update.container_id).collect();
        assert_eq!(updated, if more { vec![] } else { vec!["a", "b", "c"] });
    }
    assert_eq!(running.plugin.lines(), ["Synchronize 3 3"]);
}

#[tokio::test(start_paused = true)]
async fn more_than_the_plugin_takes_in_is_refused_and_dropped() {
    let (runtime, stream) = FakeRuntime::new(Manner::Accepts);
    let options = Options { connection: Connection::Stream(stream), max_sync: 1000, ..Options::default() };
    let running = Running::with(starts(), options);
    configured(&runtime).await;
    let long = "x".repeat(600);
    let _: api::SynchronizeResponse = runtime.call("Synchronize", &part(0, &[&long], true)).await.unwrap();
    let refused = runtime.call::<api::SynchronizeResponse>("Synchronize", &part(0, &[&long], true)).await.unwrap_err();
    let expected = "refused with RESOURCE_EXHAUSTED: the snapshot is larger than the plugin's limit of 1000 bytes";
    assert_eq!(refused.to_string(), expected);

    let _: api::SynchronizeResponse = runtime.call("Synchronize", &part(2, &["a"], false)).await.unwrap();
    assert_eq!(running.plugin.lines(), ["Synchronize 2 1"], "what was refused is gone");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_empty_pods_is_refused() {
    let (runtime, running) = pair(Manner::Accepts, starts());
    configured(&runtime).await;
    let flood = Bytes::from(part(1_000_000, &[], false).write_to_bytes().unwrap());
    assert_eq!(flood.len(), 2_000_000);
    let refused = runtime.raw("Synchronize", flood).await.unwrap_err().to_string();
    assert!(refused.starts_with("refused with RESOURCE_EXHAUSTED: the message has more than"), "{refused}");
    assert!(running.plugin.lines().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_flood_in_small_parts_is_refused_too() {
    let (runtime, running) = pair(Manner::Accepts, starts());
    configured(&runtime).await;
    let few = Bytes::from(part(1_000, &[], true).write_to_bytes().unwrap());
    let mut n_taken = 0;
    while runtime.raw("Synchronize", few.clone()).await.is_ok() {
        n_taken += 1;
        assert!(n_taken < 100, "nobody counts");
    }
    assert!(n_taken >= 2, "as many may come in any case");
    assert!(running.plugin.lines().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_full_is_not_a_flood() {
    let (runtime, running) = pair(Manner::Accepts, starts());
    configured(&runtime).await;
    let full = api::Container {
        id: "7".repeat(64),
        pod_sandbox_id: "9".repeat(64),
        name: "app".to_owned(),
        args: vec!["/bin/app".to_owned(); 10],
        env: vec!["NAME=value".to_owned(); 100],
        mounts: vec![
            api::Mount {
                destination: "/dev/shm".to_owned(),
                options: vec!["rbind".to_owned(); 4],
                ..Default::default()
            };
            20
        ],
        ..Default::default()
    };
    let request = api::SynchronizeRequest { containers: vec![full; 1000], ..Default::default() };
    let _: api::SynchronizeResponse = runtime.call("Synchronize", &request).await.unwrap();
    assert_eq!(running.plugin.lines(), ["Synchronize 0 1000"]);
}
