//! Events that happen while a plugin joins.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nri_proto::{
    Adjustment, Container, ContainerState, CreateReply, EnvVar, Event, Field, LinuxAdjustment, PluginId, Pod,
    Resources, StopReply, Update, api,
};
use tokio::time::{Instant, sleep};

use super::fake::{Diary, FakePlugin, LIFE, Manner, SECOND, at_once, container, pod};
use super::setting::{Shelf, setting};
use crate::Adaptation;
use crate::AdmitError;
use crate::Config;
use crate::Happening;
use crate::Metrics;
use crate::Notice;
use crate::api::health::State;
use crate::api::plugin::Reply;
use crate::ledger::EntryKind;

#[tokio::test(start_paused = true)]
async fn u25_what_is_created_while_a_plugin_is_synchronized_is_told_once_and_nobody_waits() {
    let setting = setting("");
    setting.create("p", "before").await;
    let (plugin, joining) = setting.joining("10-a", SECOND * 5).await;
    assert_eq!(setting.create("p", "c").await, Duration::ZERO);
    assert_eq!(setting.tell("p", Notice::Start(container("c"))).await, Duration::ZERO);
    assert!(setting.diary.lines().is_empty());
    joining.await.unwrap().unwrap();
    let shown: Vec<_> = plugin.shown()[0].containers.iter().map(|container| container.id.clone()).collect();
    assert_eq!(shown, ["before"]);
    assert_eq!(setting.diary.lines(), ["10-a CreateContainer c", "10-a StartContainer c"]);
    setting.tell("p", Notice::PostStart(container("c"))).await;
    assert_eq!(setting.diary.lines().last().unwrap(), "10-a PostStartContainer c");
}

#[tokio::test(start_paused = true)]
async fn what_is_being_created_when_a_plugin_joins_is_told_when_it_is_there() {
    let setting = setting("");
    let operation = setting.nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap();
    setting.shelf.store.lock().unwrap().containers.push(container("c"));
    let plugin = setting.plugin("10-a");
    setting.admit("10-a", &plugin).await.unwrap().unwrap();
    assert!(plugin.shown()[0].containers.is_empty(), "it may still come to nothing");
    operation.notify(Notice::PostCreate(container("c"))).await.unwrap();
    assert!(setting.diary.lines().is_empty());
    operation.commit();
    sleep(SECOND).await;
    assert_eq!(setting.diary.lines(), ["10-a CreateContainer c", "10-a PostCreateContainer c"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_being_created_when_a_plugin_joined_and_failed_is_never_told() {
    let setting = setting("");
    let operation = setting.nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap();
    let plugin = setting.plugin("10-a");
    setting.admit("10-a", &plugin).await.unwrap().unwrap();
    drop(operation);
    setting.tell("p", Notice::StopPod).await;
    sleep(SECOND).await;
    assert_eq!(setting.diary.lines(), ["10-a StopPodSandbox p"]);
}

#[tokio::test(start_paused = true)]
async fn a26_a_container_that_stops_while_the_snapshot_is_taken_is_shown_and_its_stop_told() {
    let setting = setting("");
    let running = Container { state: ContainerState::Running, ..container("c") };
    setting.shelf.store.lock().unwrap().containers.push(running.clone());
    *setting.shelf.takes.lock().unwrap() = SECOND;
    let plugin = setting.plugin("10-a");
    let joining = setting.admit("10-a", &plugin);
    sleep(SECOND / 2).await;
    let operation = setting.nri.begin(pod("p"));
    operation.stop_container(running.clone()).await.unwrap();
    setting.shelf.store.lock().unwrap().containers.clear();
    operation.commit();
    joining.await.unwrap().unwrap();
    assert_eq!(plugin.shown()[0].containers, [running]);
    assert_eq!(setting.diary.lines(), ["10-a StopContainer c"]);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_plugin_that_joins_in_the_middle_of_a_long_stop() {
    let setting = setting("");
    let old = setting.plugin("20-old");
    setting.admit("20-old", &old).await.unwrap().unwrap();
    let stopping = setting.nri.begin(pod("p"));
    stopping.stop_container(container("c")).await.unwrap();
    let plugin = setting.plugin("10-a");
    let begun = Instant::now();
    setting.admit("10-a", &plugin).await.unwrap().unwrap();
    assert_eq!(setting.create("q", "other").await, Duration::ZERO);
    assert_eq!(setting.create("p", "next").await, Duration::ZERO);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    let of_plugin =
        || -> Vec<_> { setting.diary.lines().into_iter().filter(|line| line.starts_with("10-a")).collect() };
    assert_eq!(of_plugin(), ["10-a CreateContainer other"], "it is asked about other pods");
    sleep(SECOND * 60).await;
    stopping.commit();
    sleep(SECOND).await;
    assert_eq!(of_plugin()[1..], ["10-a StopContainer c", "10-a CreateContainer next"]);
    assert_eq!(setting.create("p", "last").await, Duration::ZERO);
    assert_eq!(of_plugin().last().unwrap(), "10-a CreateContainer last");
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_is_forgotten_is_reported_and_nobody_waits_for_it() {
    for is_late in [false, true] {
        let setting = setting("operation_timeout = '20s'");
        let mut happenings = setting.nri.watch_plugins();
        let forgotten = setting.nri.begin(pod("p"));
        forgotten.create_container(container("c")).await.unwrap();
        let plugin = setting.plugin("10-a");
        if is_late {
            sleep(SECOND * 30).await;
        }
        setting.admit("10-a", &plugin).await.unwrap().unwrap();
        setting.tell("p", Notice::PostUpdatePod).await;
        sleep(SECOND * 30).await;
        assert_eq!(setting.diary.lines(), ["10-a CreateContainer c", "10-a PostUpdatePodSandbox p"]);
        let told = std::iter::from_fn(|| happenings.try_recv().ok());
        let overdue = |happening: Happening| matches!(happening, Happening::Overdue { pod, .. } if pod == "p");
        assert_eq!(told.map(overdue).filter(|is| *is).count(), 1);
        drop(forgotten);
        sleep(SECOND).await;
        assert_eq!(setting.diary.lines()[2..], ["10-a StopContainer c", "10-a RemoveContainer c"], "it had seen it");
    }
}

#[tokio::test(start_paused = true)]
async fn what_can_still_be_applied_of_a_late_answer_is_and_the_rest_is_recorded() {
    let setting = setting("");
    let (plugin, joining) = setting.joining("10-a", SECOND).await;
    let mut adjustment = Adjustment {
        linux: Some(LinuxAdjustment { resources: Some(Resources::default()), ..LinuxAdjustment::default() }),
        ..Adjustment::default()
    };
    adjustment.env.set(EnvVar::new("A", "1")).unwrap();
    let reply = CreateReply {
        adjustment: Some(adjustment),
        updates: vec![Update::new("other", Resources::default())],
        ..CreateReply::default()
    };
    plugin.reply(Event::CreateContainer, Reply::Create(Box::new(reply)));
    setting.create("p", "c").await;
    assert!(setting.shelf.updated.lock().unwrap().is_empty());
    joining.await.unwrap().unwrap();
    assert_eq!(*setting.shelf.updated.lock().unwrap(), ["c", "other"]);
    let whats: Vec<_> = setting.nri.ledger(|ledger| ledger.of("c")).iter().map(|entry| entry.what.clone()).collect();
    assert!(whats.contains(&EntryKind::Late { fields: vec![Field::Env] }), "{whats:?}");
}

/// Unknown fields are recorded as for an answer in time.
#[tokio::test(start_paused = true)]
async fn what_nobody_knows_of_an_answer_to_what_was_asked_late_or_undone_is_recorded() {
    fn with_unknown<M: protobuf::Message>() -> M {
        let mut message = M::new();
        message.mut_unknown_fields().add_varint(99, 1);
        message
    }
    let setting = setting("");
    let (plugin, joining) = setting.joining("10-a", SECOND).await;
    let reply = CreateReply::from(with_unknown::<api::CreateContainerResponse>());
    plugin.reply(Event::CreateContainer, reply.into());
    let stop = StopReply::from(with_unknown::<api::StopContainerResponse>());
    plugin.reply(Event::StopContainer, Reply::Stop(stop));
    setting.create("p", "late").await;
    joining.await.unwrap().unwrap();
    setting.nri.begin(pod("p")).create_container(container("undone")).await.unwrap();
    sleep(SECOND).await;

    let lines = |container| {
        setting.nri.ledger(|ledger| ledger.of(container)).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let (create, stop) = ("unknown fields CreateContainerResponse 99", "unknown fields StopContainerResponse 99");
    assert_eq!(lines("late"), [format!("10-a had a part of its reply ignored: {create}")]);
    assert_eq!(lines("undone").len(), 2);
    assert!(lines("undone")[0].contains(create) && lines("undone")[1].contains(stop), "{:?}", lines("undone"));
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_overflows_restarts_the_join() {
    let setting = setting("");
    let large = Pod { annotations: [("a".to_owned(), "x".repeat(1 << 20))].into(), ..pod("large") };
    let (plugin, joining) = setting.joining("10-a", SECOND).await;
    for _ in 0..5 {
        setting.nri.begin(large.clone()).notify(Notice::StopPod).await.unwrap();
    }
    setting.tell("p", Notice::StopPod).await;
    sleep(SECOND + SECOND / 2).await;
    assert_eq!(plugin.shown().len(), 2, "it is synchronized again");
    setting.tell("q", Notice::StopPod).await;
    joining.await.unwrap().unwrap();
    assert_eq!(setting.diary.lines(), ["10-a StopPodSandbox q"], "all else was shown");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_overtaken_again_and_again_is_not_let_in() {
    let setting = setting("");
    let large = Pod { annotations: [("a".to_owned(), "x".repeat(1 << 20))].into(), ..pod("large") };
    let (plugin, joining) = setting.joining("10-a", SECOND).await;
    while !joining.is_finished() {
        setting.nri.begin(large.clone()).notify(Notice::StopPod).await.unwrap();
        sleep(SECOND / 10).await;
    }
    assert!(matches!(joining.await.unwrap(), Err(AdmitError::Overtaken { .. })));
    assert_eq!(plugin.shown().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_does_not_take_what_it_missed_is_told_again_by_itself() {
    let setting = setting("plugin_defaults.strikes = 10");
    let (plugin, joining) = setting.joining("10-a", SECOND).await;
    setting.tell("p", Notice::StopPod).await;
    plugin.behave(Manner::DoesNotTake);
    sleep(SECOND * 4).await;
    plugin.behave(at_once());
    joining.await.unwrap().unwrap();
    sleep(SECOND * 4).await;
    assert!(setting.diary.lines().len() >= 3, "{:?}", setting.diary.lines());
    assert_eq!(setting.nri.plugins()[0].state, State::Active);
    setting.tell("p", Notice::RemovePod).await;
    assert_eq!(setting.diary.lines().last().unwrap(), "10-a RemovePodSandbox p");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_becomes_silent_while_it_is_told_what_it_missed_joins_and_hears_the_rest_later() {
    let setting = setting("");
    let (plugin, joining) = setting.joining("10-a", SECOND).await;
    plugin.behave(Manner::After(SECOND * 3));
    setting.tell("p", Notice::StopPod).await;
    setting.tell("p", Notice::RemovePod).await;
    joining.await.unwrap().unwrap();
    assert_eq!(setting.nri.plugins()[0].state, State::Silent);
    plugin.behave(at_once());
    sleep(SECOND * 2).await;
    assert_eq!(setting.diary.lines(), ["10-a StopPodSandbox p", "10-a RemovePodSandbox p"]);
    assert_eq!(setting.nri.plugins()[0].state, State::Active);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_does_not_say_what_there_is_keeps_nobody_for_ever() {
    let setting = setting("source_timeout = '7s'");
    *setting.shelf.takes.lock().unwrap() = SECOND * 3600;
    let begun = Instant::now();
    let refused = setting.admit("10-a", &setting.plugin("10-a")).await.unwrap().unwrap_err();
    assert!(matches!(refused, AdmitError::Source { .. }), "{refused:?}");
    assert_eq!(begun.elapsed(), SECOND * 7);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_may_take_anothers_place_where_there_is_no_room_for_more() {
    let setting = setting("max_plugins = 1");
    let (one, other) = (setting.plugin("10-a"), setting.plugin("10-a"));
    setting.admit("10-a", &one).await.unwrap().unwrap();
    setting.admit("10-a", &other).await.unwrap().unwrap();
    let refused = setting.admit("20-b", &setting.plugin("20-b")).await.unwrap().unwrap_err();
    assert_eq!(refused.to_string(), "no place for plugin 20-b: there are 1 plugins already (max_plugins)");
    assert_eq!(setting.nri.plugins().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_second_plugin_that_fails_to_join_leaves_the_first_where_it_is() {
    let setting = setting("plugin_defaults.sync_timeout = '1s'");
    setting.admit("10-a", &setting.plugin("10-a")).await.unwrap().unwrap();
    let mut happenings = setting.nri.watch_plugins();
    let slow = setting.plugin("10-a");
    slow.synchronizes_for(SECOND * 2);
    setting.admit("10-a", &slow).await.unwrap().unwrap_err();
    assert!(matches!(happenings.recv().await.unwrap(), Happening::Refused { .. }));
    assert_eq!(setting.nri.plugins().len(), 1);
}

#[derive(Default)]
struct Strikes(Mutex<u32>);

impl Metrics for Strikes {
    fn strike(&self, _: &PluginId) {
        *self.0.lock().unwrap() += 1;
    }
}

#[tokio::test(start_paused = true)]
async fn each_strike_is_counted_once_the_last_one_too() {
    for (concurrency, pods) in [("serial", 1), ("per-pod", 3)] {
        let counted = Arc::new(Strikes::default());
        let policy = format!("plugin_defaults.concurrency = '{concurrency}'");
        let config = Config { socket: None, ..Config::from_toml(&policy).unwrap() };
        let metrics = Arc::clone(&counted) as Arc<dyn Metrics>;
        let nri = Arc::new(Adaptation::with_metrics(config, Arc::new(Shelf::default()), metrics));
        let stuck = FakePlugin::new("10-a", LIFE, Manner::Never, &Diary::default());
        nri.admit("10-a".parse().unwrap(), stuck).await.unwrap();
        for number in 0..pods {
            let nri = Arc::clone(&nri);
            tokio::spawn(async move { nri.begin(pod(&number.to_string())).notify(Notice::StopPod).await });
        }
        sleep(SECOND * 20).await;
        assert!(nri.plugins().is_empty());
        assert_eq!(*counted.0.lock().unwrap(), 3);
    }
}
