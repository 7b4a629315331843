//! Which plugins join, and which events they receive.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nri_proto::event::WireEvents;
use nri_proto::{Event, EventMask, FailurePolicy, Pod, Update};

use super::fake::{Diary, FakePlugin, FakeSource, LIFE, adaptation, at_once, chain, container, pod};
use crate::Adaptation;
use crate::Config;
use crate::Notice;
use crate::api::plugin::{Introduction, Plugin, PluginError, Reply, Subscription};
use crate::api::request::Request;
use crate::api::snapshot::Snapshot;

/// Makes every request about a pod and its container once, in the order of their lives.
async fn live(nri: &Adaptation, pod: Pod) {
    let life = nri.begin(pod);
    let container = || container("c");
    life.notify(Notice::RunPod).await.unwrap();
    life.notify(Notice::UpdatePod { overhead: None, resources: None }).await.unwrap();
    life.notify(Notice::PostUpdatePod).await.unwrap();
    life.create_container(container()).await.unwrap();
    life.notify(Notice::PostCreate(container())).await.unwrap();
    life.notify(Notice::Start(container())).await.unwrap();
    life.notify(Notice::PostStart(container())).await.unwrap();
    life.update_container(container(), None).await.unwrap();
    life.notify(Notice::PostUpdate(container())).await.unwrap();
    life.stop_container(container()).await.unwrap();
    life.notify(Notice::Remove(container())).await.unwrap();
    life.notify(Notice::StopPod).await.unwrap();
    life.notify(Notice::RemovePod).await.unwrap();
}

/// The requests that [`live`] makes, in order, with the id of their object.
const LIVED: [(Event, &str); 13] = [
    (Event::RunPodSandbox, "p"),
    (Event::UpdatePodSandbox, "p"),
    (Event::PostUpdatePodSandbox, "p"),
    (Event::CreateContainer, "c"),
    (Event::PostCreateContainer, "c"),
    (Event::StartContainer, "c"),
    (Event::PostStartContainer, "c"),
    (Event::UpdateContainer, "c"),
    (Event::PostUpdateContainer, "c"),
    (Event::StopContainer, "c"),
    (Event::RemoveContainer, "c"),
    (Event::StopPodSandbox, "p"),
    (Event::RemovePodSandbox, "p"),
];

#[tokio::test(start_paused = true)]
async fn without_plugins_everything_succeeds() {
    let nri = adaptation("", &[]).await;
    live(&nri, pod("p")).await;
    live(&nri, pod("q")).await;
}

#[tokio::test(start_paused = true)]
async fn a_plugin_hears_of_what_it_subscribed_to_and_of_nothing_else() {
    let pairs = LIVED.into_iter().flat_map(|(one, _)| LIVED.map(|(other, _)| EventMask::from_iter([one, other])));
    for events in pairs.chain([LIFE, EventMask::default()]) {
        let diary = Diary::default();
        let plugin = FakePlugin::new("10-a", events, at_once(), &diary);
        let nri = adaptation("", &[("10-a", &plugin)]).await;
        live(&nri, pod("p")).await;
        let subscribed = LIVED.into_iter().filter(|(event, _)| events.contains(*event));
        let expected: Vec<_> = subscribed.map(|(event, about)| format!("10-a {} {about}", event.rpc())).collect();
        assert_eq!(diary.lines(), expected, "{events}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_several_plugins_each_hears_of_its_own_events_in_the_order_of_indices() {
    let diary = Diary::default();
    let both = EventMask::from_iter([Event::RunPodSandbox, Event::StartContainer]);
    let start = Event::StartContainer.into();
    let plugins = [("20-foo", both), ("99-bar", start), ("00-xyzzy", both)];
    let plugins = plugins.map(|(id, events)| (id, FakePlugin::new(id, events, at_once(), &diary)));
    let named: Vec<_> = plugins.iter().map(|(id, plugin)| (*id, plugin)).collect();
    let nri = adaptation("", &named).await;
    live(&nri, pod("p")).await;
    assert_eq!(
        diary.lines(),
        [
            "00-xyzzy RunPodSandbox p",
            "20-foo RunPodSandbox p",
            "00-xyzzy StartContainer c",
            "20-foo StartContainer c",
            "99-bar StartContainer c",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_plugin_is_told_who_the_runtime_is_and_which_timeouts_hold_for_it() {
    let policy = r#"
        plugin_registration_timeout = "7s"
        plugin_request_timeout = "3s"
        [plugins.special]
        request_timeout = "500ms"
    "#;
    let config = Config {
        socket: None,
        runtime_name: "crid".to_owned(),
        runtime_version: "v1.2.3".to_owned(),
        nri_version: "v0.11.0".to_owned(),
        ..Config::from_toml(policy).unwrap()
    };
    let nri = Adaptation::new(config, Arc::new(FakeSource));
    for (id, request_timeout) in [("10-any", Duration::from_secs(3)), ("20-special", Duration::from_millis(500))] {
        let plugin = FakePlugin::new(id, LIFE, at_once(), &Diary::default());
        nri.admit(id.parse().unwrap(), Arc::clone(&plugin) as Arc<dyn Plugin>).await.unwrap();
        let expected = Introduction {
            config: String::new(),
            runtime_name: "crid".to_owned(),
            runtime_version: "v1.2.3".to_owned(),
            nri_version: "v0.11.0".to_owned(),
            registration_timeout: Duration::from_secs(7),
            request_timeout,
        };
        assert_eq!(plugin.introduction(), expected);
    }
}

/// A plugin that fails its synchronization.
struct Unready;

#[async_trait]
impl Plugin for Unready {
    async fn configure(&self, _: Introduction) -> Result<Subscription, PluginError> {
        Ok(Subscription { events: WireEvents { known: LIFE, unknown: 0 }, declared: FailurePolicy::default() })
    }

    async fn synchronize(&self, _: Snapshot) -> Result<Vec<Update>, PluginError> {
        Err(PluginError::refused("not now"))
    }

    async fn ask(self: Arc<Self>, _: Arc<Request>, _: Duration) -> Result<Reply, PluginError> {
        panic!("it never joined")
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_fails_to_be_synchronized_is_never_asked() {
    let nri = adaptation("", &[]).await;
    let refused = nri.admit("10-a".parse().unwrap(), Arc::new(Unready)).await.unwrap_err();
    assert_eq!(chain(&refused), "could not synchronize plugin 10-a: not now");
    assert!(nri.plugins().is_empty());
    live(&nri, pod("p")).await;
}

#[tokio::test]
async fn where_connections_are_disabled_there_is_nothing_to_connect_to() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nri.sock");
    for (disabled, is_there) in [(true, false), (false, true)] {
        let config = format!("socket_path = '{}'\ndisable_connections = {disabled}", path.display());
        let nri = Adaptation::new(Config::from_toml(&config).unwrap(), Arc::new(FakeSource));
        nri.listen().unwrap();
        assert_eq!(path.exists(), is_there);
        nri.stop().await;
    }
}
