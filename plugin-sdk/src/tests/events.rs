use bytes::Bytes;
use nri_proto::{Event, EventMask, api};
use protobuf::{EnumOrUnknown, Message};

use super::fake::{FakePlugin, Manner, pair, starts};

fn state_change(event: i32) -> api::StateChangeEvent {
    api::StateChangeEvent {
        event: EnumOrUnknown::from_i32(event),
        pod: Some(api::PodSandbox { id: "p1".to_owned(), ..Default::default() }).into(),
        container: Some(api::Container { id: "c1".to_owned(), ..Default::default() }).into(),
        ..Default::default()
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_runtime_tells_of_events_by_a_state_change() {
    let (runtime, running) =
        pair(Manner::Accepts, FakePlugin::on([Event::RunPodSandbox, Event::StartContainer].into_iter().collect()));
    runtime.admit().await;
    for event in [Event::RunPodSandbox, Event::StartContainer] {
        let _: api::Empty = runtime.call("StateChange", &state_change(event.number())).await.unwrap();
    }
    let expected = ["Synchronize 0 0", "RunPodSandbox p1", "StartContainer c1", "started c1"];
    assert_eq!(running.plugin.lines(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_state_change_of_an_unknown_kind_is_refused() {
    let (runtime, running) = pair(Manner::Accepts, FakePlugin::on(EventMask::ALL));
    runtime.admit().await;
    for event in [0, 15, 99, -1, Event::CreateContainer.number(), Event::ValidateContainerAdjustment.number()] {
        let refused = runtime.call::<api::Empty>("StateChange", &state_change(event)).await.unwrap_err();
        assert!(refused.to_string().starts_with("refused with INVALID_ARGUMENT"), "{event}: {refused}");
    }
    assert_eq!(running.plugin.lines(), ["Synchronize 0 0"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_not_subscribed_to_is_answered_and_not_heard() {
    let (runtime, running) = pair(Manner::Accepts, starts());
    runtime.admit().await;
    let _: api::CreateContainerResponse =
        runtime.call("CreateContainer", &api::CreateContainerRequest::new()).await.unwrap();
    assert_eq!(running.plugin.lines(), ["Synchronize 0 0"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_before_the_configuration_is_refused() {
    let (runtime, running) = pair(Manner::Accepts, starts());
    runtime.registered().await;
    let refused = runtime.start("c1").await.unwrap_err();
    assert_eq!(refused.to_string(), "refused with FAILED_PRECONDITION: the plugin is not configured yet");
    assert!(running.plugin.lines().is_empty());
}

#[tokio::test(start_paused = true)]
async fn every_event_has_an_rpc() {
    let (runtime, _running) = pair(Manner::Accepts, starts());
    runtime.admit().await;
    for event in Event::ALL {
        let answer = runtime.raw(event.rpc(), Bytes::new()).await;
        assert!(answer.is_ok(), "a runtime would take the plugin for an old one: {event}: {answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_says_no_or_panics_is_an_answer() {
    let (runtime, running) = pair(Manner::Accepts, FakePlugin::on(Event::CreateContainer.into()));
    runtime.admit().await;
    let create = async |id: &str| {
        let container = api::Container { id: id.to_owned(), ..Default::default() };
        let request = api::CreateContainerRequest { container: Some(container).into(), ..Default::default() };
        let answer = runtime.call::<api::CreateContainerResponse>("CreateContainer", &request).await;
        answer.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(create("no").await.unwrap_err(), "refused with UNKNOWN: not this one");
    assert_eq!(create("panic").await.unwrap_err(), "refused with INTERNAL: the handler of CreateContainer panicked");
    create("yes").await.unwrap();
    assert_eq!(running.plugin.lines().last().unwrap(), "CreateContainer yes");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_refused_and_the_plugin_lives() {
    let (runtime, running) = pair(Manner::Accepts, FakePlugin::on(EventMask::ALL));
    runtime.admit().await;
    let rpcs = ["Configure", "Synchronize", "StateChange"].into_iter().chain(Event::ALL.map(Event::rpc));
    for rpc in rpcs.filter(|rpc| *rpc != "Configure") {
        let refused = runtime.raw(rpc, Bytes::from_static(&[0x0a, 0xff, 0xff])).await.unwrap_err().to_string();
        assert!(refused.starts_with("refused with INVALID_ARGUMENT: the message cannot be read"), "{rpc}: {refused}");
    }
    runtime.start("c1").await.unwrap();
    assert_eq!(running.plugin.lines().last().unwrap(), "started c1");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_entries_is_refused() {
    let (runtime, _running) = pair(Manner::Accepts, FakePlugin::on(EventMask::ALL));
    runtime.admit().await;
    let container = api::Container { args: vec![String::new(); 100_000], ..Default::default() };
    let request = api::StartContainerRequest { container: Some(container).into(), ..Default::default() };
    let flood = Bytes::from(request.write_to_bytes().unwrap());
    let refused = runtime.raw("StartContainer", flood).await.unwrap_err().to_string();
    assert!(refused.starts_with("refused with RESOURCE_EXHAUSTED"), "{refused}");
}
