use nri_proto::{Event, EventMask, api};

use super::fake::{FakePlugin, FakeRuntime, Manner, Running, introduction, pair, starts};
use crate::{Connection, Options, OptionsError, Runner};

#[tokio::test(start_paused = true)]
async fn a_plugin_registers_with_its_name_its_index_and_its_version() {
    let (runtime, _running) = pair(Manner::Accepts, starts());
    runtime.registered().await;
    let request = &runtime.heard.registered()[0];
    assert_eq!((&*request.plugin_idx, &*request.plugin_name), ("10", "fake"));
    assert_eq!(request.NRI_version, "v0.12.5");
}

#[tokio::test(start_paused = true)]
async fn the_runtime_may_configure_before_it_answers_the_registration() {
    let (runtime, running) = pair(Manner::ConfiguresFirst, starts());
    runtime.registered().await;
    let _: api::SynchronizeResponse = loop {
        if runtime.heard.configured().is_some() {
            break runtime.call("Synchronize", &api::SynchronizeRequest::new()).await.unwrap();
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(runtime.heard.configured().unwrap().events, EventMask::from(Event::StartContainer).to_wire().unwrap());
    runtime.start("c1").await.unwrap();
    assert_eq!(running.plugin.lines(), ["Synchronize 0 0", "StartContainer c1", "started c1"]);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_refuses_is_quoted() {
    let (_runtime, running) = pair(Manner::Refuses, starts());
    let expected = "could not register with the runtime: refused with ALREADY_EXISTS: there is one of that name";
    assert_eq!(running.ended().await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_refuses_its_configuration_ends_and_the_runtime_is_told_why() {
    let (runtime, running) = pair(Manner::Accepts, FakePlugin { refuses: true, ..starts() });
    runtime.registered().await;
    let refused = runtime.call::<api::ConfigureResponse>("Configure", &introduction()).await.unwrap_err();
    assert_eq!(refused.to_string(), "refused with UNKNOWN: the configuration is in Latin");
    assert_eq!(running.ended().await, "the plugin refused its configuration: the configuration is in Latin");
}

#[tokio::test(start_paused = true)]
async fn a_second_configuration_changes_nothing() {
    let (runtime, running) = pair(Manner::Accepts, starts());
    let events = runtime.admit().await;
    let other = api::ConfigureRequest { config: "other".to_owned(), ..introduction() };
    let answer: api::ConfigureResponse = runtime.call("Configure", &other).await.unwrap();
    assert_eq!(EventMask::from_wire(answer.events).known, events);
    assert_eq!(running.plugin.introduction.lock().unwrap().as_ref().unwrap().config, "");
}

#[tokio::test(start_paused = true)]
async fn the_runtimes_configuration_comes_before_our_own() {
    for (theirs, expected) in [("theirs", "theirs"), ("", "ours")] {
        let (runtime, stream) = FakeRuntime::new(Manner::Accepts);
        let connection = Connection::Stream(stream);
        let options = Options { connection, config: Some("ours".to_owned()), ..Options::default() };
        let running = Running::with(starts(), options);
        runtime.registered().await;
        let request = api::ConfigureRequest { config: theirs.to_owned(), ..introduction() };
        let _: api::ConfigureResponse = runtime.call("Configure", &request).await.unwrap();
        assert_eq!(running.plugin.introduction.lock().unwrap().as_ref().unwrap().config, expected);
    }
}

/// Returns the events that a plugin for all events subscribes to with such a runtime.
async fn asked_of(request: api::ConfigureRequest) -> EventMask {
    let (runtime, _running) = pair(Manner::Accepts, FakePlugin::on(EventMask::ALL));
    runtime.registered().await;
    let answer: api::ConfigureResponse = runtime.call("Configure", &request).await.unwrap();
    EventMask::from_wire(answer.events).known
}

#[tokio::test(start_paused = true)]
async fn a_runtime_is_not_asked_for_events_that_it_does_not_know() {
    let mut first = EventMask::ALL;
    for newer in [Event::UpdatePodSandbox, Event::PostUpdatePodSandbox, Event::ValidateContainerAdjustment] {
        first.remove(newer);
    }
    let named = |name: &str, version: &str, timeout| api::ConfigureRequest {
        runtime_name: name.to_owned(),
        runtime_version: version.to_owned(),
        request_timeout: timeout,
        ..Default::default()
    };
    assert_eq!(asked_of(introduction()).await, EventMask::ALL);
    assert_eq!(asked_of(named("containerd", "v1.7.20", 0)).await, first);
    assert_eq!(asked_of(named("containerd", "v2.2.0", 2000)).await, EventMask::ALL);
    assert_eq!(asked_of(named("another", "v1", 0)).await, first, "it says as little as one from before 0.7");
    assert_eq!(asked_of(named("another", "v1", 2000)).await, EventMask::ALL, "it may be one of 0.10");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_can_tell_what_it_will_hear_of() {
    for (version, knows) in [("v0.12.5", true), ("v0.6.1", false)] {
        let (runtime, running) = pair(Manner::Accepts, FakePlugin::on(EventMask::ALL));
        runtime.registered().await;
        let request = api::ConfigureRequest { NRI_version: version.to_owned(), ..introduction() };
        let _: api::ConfigureResponse = runtime.call("Configure", &request).await.unwrap();
        let _: api::SynchronizeResponse = runtime.call("Synchronize", &api::SynchronizeRequest::new()).await.unwrap();
        let hears = running.plugin.hears.lock().unwrap().unwrap();
        assert!(hears.contains(Event::StartContainer));
        assert_eq!(hears.contains(Event::ValidateContainerAdjustment), knows, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_wants_only_what_the_runtime_does_not_know_ends() {
    let (runtime, running) = pair(Manner::Accepts, FakePlugin::on(Event::ValidateContainerAdjustment.into()));
    runtime.registered().await;
    let request = api::ConfigureRequest { NRI_version: "v0.6.1".to_owned(), ..introduction() };
    assert!(runtime.call::<api::ConfigureResponse>("Configure", &request).await.is_err());
    let expected = "the plugin refused its configuration: the runtime supports none of the plugin's events (ValidateContainerAdjustment)";
    assert_eq!(running.ended().await, expected);
}

#[tokio::test]
async fn a_plugin_that_subscribes_to_nothing_cannot_start() {
    let options = Options { index: Some("10".to_owned()), name: Some("none".to_owned()), ..Options::default() };
    let error = Runner::new(std::sync::Arc::new(FakePlugin::default()), options).err();
    assert_eq!(error, Some(OptionsError::NoEvents));
}
