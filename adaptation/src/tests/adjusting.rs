//! How the changes of several plugins travel through a request.

use nri_proto::{Cpu, EnvVar, Event, Eviction, Field, Resources, StopReply, Update, UpdateReply};

use super::fake::{Diary, FakePlugin, LIFE, Manner, adaptation, at_once, chain, container, pod};
use crate::api::plugin::Reply;
use crate::api::request::Subject;

fn shares(shares: u64) -> Resources {
    Resources { cpu: Some(Cpu { shares: Some(shares), ..Cpu::default() }), ..Resources::default() }
}

/// Returns the updated containers, with their CPU shares.
fn updated(updates: &[Update]) -> Vec<(&str, Option<u64>)> {
    updates.iter().map(|update| (&*update.container_id, update.resources().and_then(shares_of))).collect()
}

fn shares_of(resources: &Resources) -> Option<u64> {
    resources.cpu.as_ref()?.shares
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_has_no_say_changes_nothing_and_is_not_in_the_way_of_others() {
    let diary = Diary::default();
    let [stuck, first, second] =
        ["00-stuck", "10-a", "20-b"].map(|name| FakePlugin::new(name, LIFE, at_once(), &diary));
    stuck.adjust(|adjustment| adjustment.env.set(EnvVar::new("A", "0")).unwrap());
    stuck.behave(Manner::Never);
    first.adjust(|adjustment| adjustment.env.set(EnvVar::new("A", "1")).unwrap());
    let nri = adaptation("", &[("00-stuck", &stuck), ("10-a", &first), ("20-b", &second)]).await;
    let merged = nri.begin(pod("p")).create_container(container("c")).await.unwrap();
    assert_eq!(merged.adjustment.env.get("A").unwrap().into_value().unwrap().value, "1");
    assert!(merged.owners.owner("c", Field::Env, "A").unwrap().plugins().eq(["10-a"]));
    assert_eq!(second.asked().container().unwrap().env, ["A=1"]);
}

#[tokio::test(start_paused = true)]
async fn what_comes_out_has_the_container_as_one_more_plugin_would_be_shown_it() {
    let diary = Diary::default();
    let [only, last] = ["10-a", "20-b"].map(|name| FakePlugin::new(name, LIFE, at_once(), &diary));
    last.adjust(|adjustment| adjustment.env.set(EnvVar::new("A", "1")).unwrap());
    let nri = adaptation("", &[("10-a", &only), ("20-b", &last)]).await;
    let merged = nri.begin(pod("p")).create_container(container("c")).await.unwrap();
    assert_eq!((&*merged.container.id, merged.container.env("A")), ("c", Some("1")));

    let nobody = adaptation("", &[]).await;
    let merged = nobody.begin(pod("p")).create_container(container("c")).await.unwrap();
    assert_eq!(*merged.container, container("c"));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_fails_the_request_and_later_plugins_are_not_asked() {
    let diary = Diary::default();
    let [first, second, third] = ["10-a", "20-b", "30-c"].map(|name| FakePlugin::new(name, LIFE, at_once(), &diary));
    for plugin in [&first, &second] {
        plugin.adjust(|adjustment| adjustment.env.set(EnvVar::new("A", "1")).unwrap());
    }
    let nri = adaptation("", &[("10-a", &first), ("20-b", &second), ("30-c", &third)]).await;
    let error = nri.begin(pod("p")).create_container(container("c")).await.unwrap_err();
    assert_eq!(chain(&error), r#"plugins "20-b" and "10-a" both tried to set Env A"#);
    assert_eq!(diary.lines(), ["10-a CreateContainer c", "20-b CreateContainer c"]);
}

/// U16: in Go, the list of updates ends in an empty entry.
#[tokio::test(start_paused = true)]
async fn u16_an_update_that_no_plugin_answers_has_no_entry() {
    let diary = Diary::default();
    let quiet = FakePlugin::new("10-quiet", LIFE, at_once(), &diary);
    let stuck = FakePlugin::new("20-stuck", LIFE, Manner::Never, &diary);
    let nri = adaptation("", &[("10-quiet", &quiet), ("20-stuck", &stuck)]).await;
    let updated = nri.begin(pod("p")).update_container(container("c"), Some(shares(100))).await.unwrap();
    assert_eq!(updated.own, None, "the runtime does what it was asked to");
    assert!(updated.others.is_empty() && updated.evictions.is_empty());
    assert_eq!(diary.lines().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn new_limits_are_shown_to_the_next_plugin_as_the_one_before_left_them() {
    let diary = Diary::default();
    let [first, second] = ["10-a", "20-b"].map(|name| FakePlugin::new(name, LIFE, at_once(), &diary));
    let updates = vec![Update::new("c", shares(7)), Update::new("other", shares(8))];
    let evictions = vec![Eviction { container_id: "third".to_owned(), ..Eviction::default() }];
    first.reply(Event::UpdateContainer, Reply::Update(UpdateReply { updates, evictions, ..UpdateReply::default() }));
    let nri = adaptation("", &[("10-a", &first), ("20-b", &second)]).await;
    let updated = nri.begin(pod("p")).update_container(container("c"), Some(shares(100))).await.unwrap();
    let seen = |plugin: &FakePlugin| {
        let request = plugin.asked();
        let Subject::ContainerResources { resources: Some(resources), .. } = request.subject() else { panic!() };
        shares_of(resources)
    };
    assert_eq!((seen(&first), seen(&second)), (Some(100), Some(7)));
    assert_eq!(updated.own.unwrap().resources().and_then(shares_of), Some(7));
    assert_eq!(self::updated(&updated.others), [("other", Some(8))]);
    assert_eq!(updated.evictions[0].plugin.as_str(), "10-a");
    assert_eq!(updated.evictions[0].eviction.container_id, "third");
}

#[tokio::test(start_paused = true)]
async fn an_end_takes_place_although_plugins_want_contrary_things() {
    let diary = Diary::default();
    let [first, second, third] = ["10-a", "20-b", "30-c"].map(|name| FakePlugin::new(name, LIFE, at_once(), &diary));
    for (plugin, other) in [(&first, "x"), (&second, "x"), (&third, "y")] {
        let updates = vec![Update::new(other, shares(7))];
        plugin.reply(Event::StopContainer, Reply::Stop(StopReply { updates, ..StopReply::default() }));
    }
    let nri = adaptation("", &[("10-a", &first), ("20-b", &second), ("30-c", &third)]).await;
    let error = nri.begin(pod("p")).stop_container(container("c")).await.unwrap_err();
    assert_eq!(chain(&error), r#"plugins "20-b" and "10-a" both tried to set CPUShares "#);
    assert_eq!(updated(&error.merged.updates), [("x", Some(7)), ("y", Some(7))]);
    assert_eq!(diary.lines().len(), 3);
}
