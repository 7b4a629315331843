//! Declared failure policies, plugins that disconnect, and answers that are too late.

use nri_proto::{Cpu, CreateReply, EnvVar, Event, Eviction, Field, Resources, Update};
use tokio::time::sleep;

use super::fake::{Diary, FakePlugin, LIFE, Manner, SECOND, adaptation, at_once, chain, container, pod};
use crate::Adaptation;
use crate::Happening;
use crate::Notice;
use crate::Operation;
use crate::ledger::EntryKind;

/// The events that plugins can veto, each as the first request about a pod.
const GATES: [Event; 5] = [
    Event::RunPodSandbox,
    Event::UpdatePodSandbox,
    Event::CreateContainer,
    Event::StartContainer,
    Event::UpdateContainer,
];

async fn tell(nri: &Adaptation, event: Event) -> Result<(), String> {
    let operation = nri.begin(pod("p"));
    let told = ask(&operation, event).await;
    operation.commit();
    told
}

async fn ask(operation: &Operation, event: Event) -> Result<(), String> {
    let container = container("c");
    let notice = match event {
        Event::CreateContainer => {
            return operation.create_container(container).await.map(drop).map_err(|error| chain(&error));
        }
        Event::UpdateContainer => {
            return operation.update_container(container, None).await.map(drop).map_err(|error| chain(&error));
        }
        Event::StopContainer => {
            return operation.stop_container(container).await.map(drop).map_err(|error| chain(&error));
        }
        Event::ValidateContainerAdjustment => panic!("nobody is told of this alone"),
        Event::RunPodSandbox => Notice::RunPod,
        Event::UpdatePodSandbox => Notice::UpdatePod { overhead: None, resources: None },
        Event::PostUpdatePodSandbox => Notice::PostUpdatePod,
        Event::StopPodSandbox => Notice::StopPod,
        Event::RemovePodSandbox => Notice::RemovePod,
        Event::PostCreateContainer => Notice::PostCreate(container),
        Event::StartContainer => Notice::Start(container),
        Event::PostStartContainer => Notice::PostStart(container),
        Event::PostUpdateContainer => Notice::PostUpdate(container),
        Event::RemoveContainer => Notice::Remove(container),
    };
    operation.notify(notice).await.map_err(|error| chain(&error))
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_declares_it_fails_requests_by_name_and_is_kept() {
    for event in GATES {
        let diary = Diary::default();
        let slow = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND * 3), &diary);
        let later = FakePlugin::new("20-later", LIFE, at_once(), &diary);
        slow.declare(true, true);
        let nri = adaptation("", &[("10-slow", &slow), ("20-later", &later)]).await;
        let failed = format!("plugin 10-slow failed to handle {} request: no answer in time", event.rpc());
        assert_eq!(tell(&nri, event).await, Err(failed));
        assert_eq!(diary.lines().len(), 1, "later plugins are not asked");
        slow.behave(at_once());
        sleep(SECOND * 2).await;
        assert_eq!(tell(&nri, event).await, Ok(()), "it has answered, and is asked again");
        assert_eq!(diary.lines().len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_in_a_handler_fails_the_request_if_that_is_declared() {
    for event in GATES {
        for declared in [false, true] {
            let diary = Diary::default();
            let broken = FakePlugin::new("10-broken", LIFE, Manner::Breaks, &diary);
            let later = FakePlugin::new("20-later", LIFE, at_once(), &diary);
            broken.declare(declared, true);
            let nri = adaptation("", &[("10-broken", &broken), ("20-later", &later)]).await;
            assert_eq!(tell(&nri, event).await.is_err(), declared);
            assert_eq!(diary.lines().len(), if declared { 1 } else { 2 });
            sleep(SECOND).await;
            assert_eq!(nri.plugins().len(), 1, "it is gone, also if it is to be kept");
            assert_eq!(tell(&nri, event).await, Ok(()), "nobody misses it");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_left_while_idle_fails_nothing_whatever_it_declared() {
    for event in LIFE.iter() {
        let diary = Diary::default();
        let left = FakePlugin::new("10-left", LIFE, at_once(), &diary);
        let later = FakePlugin::new("20-later", LIFE, at_once(), &diary);
        left.declare(true, true);
        let nri = adaptation("", &[("10-left", &left), ("20-later", &later)]).await;
        left.leave().await;
        assert_eq!(tell(&nri, event).await, Ok(()));
        assert_eq!(diary.lines().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_leaves_before_its_turn_is_passed_over() {
    let diary = Diary::default();
    let slow = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND), &diary);
    let [leaves, last] = ["20-leaves", "30-last"].map(|name| FakePlugin::new(name, LIFE, at_once(), &diary));
    leaves.declare(true, true);
    let nri = adaptation("", &[("10-slow", &slow), ("20-leaves", &leaves), ("30-last", &last)]).await;
    let leaving = async {
        sleep(SECOND / 2).await;
        leaves.leave().await;
    };
    let (told, ()) = tokio::join!(tell(&nri, Event::StartContainer), leaving);
    assert_eq!(told, Ok(()));
    assert_eq!(diary.lines(), ["10-slow StartContainer c", "30-last StartContainer c"]);
}

/// U37: in Go, late answers are dropped without a trace.
#[tokio::test(start_paused = true)]
async fn u37_what_cannot_be_applied_of_an_answer_that_is_too_late_is_recorded() {
    let diary = Diary::default();
    let slow = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND * 3), &diary);
    slow.adjust(|adjustment| adjustment.env.set(EnvVar::new("A", "1")).unwrap());
    slow.declare(false, true);
    let nri = adaptation("", &[("10-slow", &slow)]).await;
    let mut happenings = nri.watch();
    let operation = nri.begin(pod("p"));
    let merged = operation.create_container(container("c")).await.unwrap();
    assert!(merged.adjustment.env.is_empty());
    operation.notify(Notice::Start(container("c"))).await.unwrap();
    sleep(SECOND * 2).await;
    operation.notify(Notice::PostStart(container("c"))).await.unwrap();
    assert_eq!(diary.lines(), ["10-slow CreateContainer c"], "the start may still come to nothing");
    slow.behave(at_once());
    operation.commit();
    sleep(SECOND).await;
    assert_eq!(diary.lines()[1..], ["10-slow StartContainer c", "10-slow PostStartContainer c"]);

    let late = |told| if let Happening::Late { took, .. } = told { Some(took) } else { None };
    let took = std::iter::from_fn(|| happenings.try_recv().ok()).find_map(late);
    assert_eq!(took, Some(SECOND * 3));
    let whats: Vec<_> = nri.ledger(|ledger| ledger.of("c")).iter().map(|entry| entry.what.clone()).collect();
    assert!(whats.contains(&EntryKind::TimedOut), "{whats:?}");
    assert!(whats.contains(&EntryKind::Late { fields: vec![Field::Env] }), "{whats:?}");
    assert!(nri.ledger(|ledger| ledger.why("c", Field::Env, Some("A"))).is_empty(), "it changed nothing");
}

#[tokio::test(start_paused = true)]
async fn u37_what_a_late_answer_to_a_request_that_failed_wants_is_recorded_for_each_container() {
    let slow = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND * 3), &Diary::default());
    let cpu = Cpu { shares: Some(2), ..Cpu::default() };
    let reply = CreateReply {
        updates: vec![Update::new("other", Resources { cpu: Some(cpu), ..Resources::default() })],
        evictions: vec![Eviction { container_id: "evicted".to_owned(), ..Eviction::default() }],
        ..CreateReply::default()
    };
    slow.reply(Event::CreateContainer, reply.into());
    let nri = adaptation("", &[("10-slow", &slow)]).await;
    let operation = nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap();
    drop(operation);
    sleep(SECOND * 2).await;
    let lines =
        |container| nri.ledger(|ledger| ledger.of(container)).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(lines("c")[1..2], ["10-slow answered CreateContainer too late (3000.0 ms)"]);
    assert_eq!(lines("other"), ["10-slow answered CreateContainer too late to change CPUShares (3000.0 ms)"]);
    assert_eq!(lines("evicted"), ["10-slow could not evict evicted: the plugin asked for it too late (3000.0 ms)"]);
}
