//! Plugins that fail during requests, by the rows of `docs/faults.md`.

use std::sync::Arc;
use std::time::Duration;

use nri_adaptation::health::State;
use nri_adaptation::ledger::EntryKind;
use nri_adaptation::{Adaptation, Notice, RelayError, UpdatesFailed};
use nri_proto::{Update, api};
use nri_tests::wire::response;
use protobuf::Message;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};
use ttrpc::Code;

use crate::node::{DONE, Node, SECOND, closed, container, pod, start};
use crate::raw::Raw;

/// Makes one of the requests that a plugin can get, by its number.
async fn ask(nri: &Adaptation, number: usize) -> Result<(), RelayError> {
    let (life, c) = (nri.begin(pod("p")), container("c"));
    let outcome = match number {
        0 => life.notify(Notice::RunPod).await,
        1 => life.notify(Notice::UpdatePod { overhead: None, resources: None }).await,
        2 => life.create_container(c).await.map(drop),
        3 => life.notify(Notice::Start(c)).await,
        4 => life.update_container(c, None).await.map(drop),
        5 => life.notify(Notice::PostUpdatePod).await,
        6 => life.notify(Notice::PostCreate(c)).await,
        7 => life.notify(Notice::PostStart(c)).await,
        8 => life.notify(Notice::PostUpdate(c)).await,
        9 => life.stop_container(c).await.map(drop).map_err(|error| error.cause),
        10 => life.notify(Notice::Remove(c)).await,
        11 => life.notify(Notice::StopPod).await,
        _ => life.notify(Notice::RemovePod).await,
    };
    life.commit();
    outcome
}
const ALL: usize = 13;
/// The number of requests that plugins can veto. These come first.
const GATING: usize = 5;

/// Answers each request until the connection ends, and returns the number of requests.
async fn answer_all(mut plugin: Raw) -> usize {
    let mut count = 0;
    while let Some((id, request)) = plugin.asked_or_closed().await {
        count += usize::from(request.method != "Shutdown");
        plugin.answer(id, &api::Empty::new()).await;
    }
    count
}

/// A07.
#[tokio::test(start_paused = true)]
async fn a07_a_plugin_that_dies_when_it_is_asked_fails_the_request_by_policy_and_the_others_are_told() {
    for (policy, is_required) in [("", false), ("plugins.a.required = true", true)] {
        for number in 0..ALL {
            let nri = start(policy, DONE);
            let mut dies = Raw::join(&nri, "10-a").await;
            let other = tokio::spawn(answer_all(Raw::join(&nri, "90-z").await));
            let dying = async {
                dies.asked().await;
                drop(dies);
            };
            let begun = Instant::now();
            let (outcome, ()) = tokio::join!(ask(&nri, number), dying);
            assert_eq!(outcome.is_err(), is_required, "event {number}: {outcome:?}");
            assert_eq!(begun.elapsed(), Duration::ZERO);
            nri.stop().await;
            let is_told = !(is_required && number < GATING);
            assert_eq!(other.await.unwrap(), usize::from(is_told), "event {number}: what the other one heard");
        }
    }
}

/// A10.
#[tokio::test(start_paused = true)]
async fn a10_plugins_that_all_die_at_once_cost_a_request_nothing_but_their_answers() {
    for (policy, fails) in [("", false), ("plugins.c.required = true", true)] {
        let nri = start(policy, DONE);
        let mut first = Raw::join(&nri, "10-a").await;
        let others = [Raw::join(&nri, "20-b").await, Raw::join(&nri, "30-c").await];
        let dying = async {
            first.asked().await;
            drop((first, others));
        };
        let begun = Instant::now();
        let (outcome, ()) = tokio::join!(ask(&nri, 2), dying);
        assert_eq!(outcome.is_err(), fails, "{outcome:?}");
        assert_eq!(begun.elapsed(), Duration::ZERO);
        nri.stop().await;
    }
}

/// A46.
#[tokio::test(start_paused = true)]
async fn a46_plugins_that_die_and_come_back_under_load_take_nothing_from_the_others() {
    const PODS: usize = 8;
    const LIVES: usize = 25;
    let nri = Arc::new(start("", DONE));
    let survivor = tokio::spawn(answer_all(Raw::join(&nri, "50-survivor").await));
    let load: Vec<_> = (0..PODS)
        .map(|number| {
            let nri = Arc::clone(&nri);
            tokio::spawn(async move {
                for _ in 0..LIVES {
                    let life = nri.begin(pod(&number.to_string()));
                    for notice in [Notice::RunPod, Notice::StopPod, Notice::RemovePod] {
                        life.notify(notice).await.unwrap();
                        tokio::time::sleep(Duration::from_millis(7)).await;
                    }
                }
            })
        })
        .collect();
    // Plugins before and behind the survivor, each of which lives for a few requests.
    let mut others = std::collections::VecDeque::new();
    for number in 0..60 {
        let id = format!("{:02}-mortal", [10, 90, 20, 80][number % 4]);
        others.push_back(tokio::spawn(answer_all(Raw::join(&nri, &id).await)));
        tokio::time::sleep(Duration::from_millis(5)).await;
        if others.len() > 3 {
            others.pop_front().unwrap().abort();
        }
    }
    for pod in load {
        pod.await.unwrap();
    }
    nri.stop().await;
    assert_eq!(survivor.await.unwrap(), PODS * LIVES * 3);
}

/// A35.
#[tokio::test(start_paused = true)]
async fn a35_a_plugin_that_joins_during_an_operation_takes_part_in_the_next() {
    let nri = start("", DONE);
    let mut old = Raw::join(&nri, "50-old").await;
    let operation = nri.begin(pod("p"));
    let joining = async {
        let (id, _) = old.asked().await;
        let new = Raw::join(&nri, "10-new").await;
        old.answer(id, &api::Empty::new()).await;
        (old, new)
    };
    let (run, (old, mut new)) = tokio::join!(operation.notify(Notice::RunPod), joining);
    run.unwrap();
    let old = tokio::spawn(answer_all(old));
    operation.notify(Notice::PostUpdatePod).await.unwrap();
    operation.commit();
    let answering = async {
        for method in ["RunPodSandbox", "PostUpdatePodSandbox", "StopPodSandbox"] {
            let (id, request) = new.asked().await;
            assert_eq!(
                request.method, method,
                "it hears of an operation that was begun without it when that has ended"
            );
            new.answer(id, &api::Empty::new()).await;
        }
        new
    };
    let next = nri.begin(pod("p"));
    let (stopped, new) = tokio::join!(next.notify(Notice::StopPod), answering);
    stopped.unwrap();
    drop(new);
    nri.stop().await;
    assert_eq!(old.await.unwrap(), 2);
}

/// A09: the plugin has answered before it dies.
#[tokio::test(start_paused = true)]
async fn a09_an_answer_counts_although_its_plugin_dies_right_after_it() {
    let nri = start("plugins.a.required = true", DONE);
    let mut plugin = Raw::join(&nri, "10-a").await;
    let dying = async {
        let (id, _) = plugin.asked().await;
        plugin.answer(id, &api::CreateContainerResponse::new()).await;
        drop(plugin);
    };
    let operation = nri.begin(pod("p"));
    let (created, ()) = tokio::join!(operation.create_container(container("c")), dying);
    created.map(drop).unwrap();
    nri.stop().await;
}

/// Checks that a plugin with this answer to a create is closed, and that the container is created
/// without it.
async fn check_answer(answer: Vec<u8>, reason: &str) {
    let nri = start("", DONE);
    let mut happenings = nri.watch();
    let mut plugin = Raw::join(&nri, "10-a").await;
    let answering = async {
        let (id, _) = plugin.asked().await;
        plugin.send(&response(id, answer)).await;
        plugin
    };
    let operation = nri.begin(pod("p"));
    let (created, plugin) = tokio::join!(operation.create_container(container("c")), answering);
    assert!(created.unwrap().adjustment.annotations.is_empty());
    assert_eq!(closed(&mut happenings).await, format!("the plugin violated the protocol: {reason}"));
    plugin.closed().await;
    nri.stop().await;
}

/// A17, A18: two bytes each on the wire, hundreds in memory.
#[tokio::test(start_paused = true)]
async fn a18_an_answer_of_a_million_entries_is_not_read_and_closes_its_plugin() {
    check_answer([0x12, 0].repeat(1 << 20), "its answer has too many entries").await;
}

/// Go fails the request, and keeps the plugin.
#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_read_closes_its_plugin_and_nothing_of_it_is_used() {
    check_answer(vec![0xff; 4], "its answer cannot be read").await;
    // An adjustment of 32 bytes, of which an annotation and the half of a mount are there.
    let cut_off = b"\x0a\x20\x12\x06\x0a\x01a\x12\x01b\x1a\x04\x0a\x02/c";
    check_answer(cut_off.to_vec(), "its answer cannot be read").await;
}

/// The protobuf library skips a group silently.
#[tokio::test(start_paused = true)]
async fn a_group_in_an_answer_is_reported_and_dropped_and_the_rest_counts() {
    let nri = start("", DONE);
    let mut plugin = Raw::join(&nri, "10-a").await;
    // The group 15, and an adjustment with an annotation.
    let answer = b"\x7b\x08\x07\x7c\x0a\x08\x12\x06\x0a\x01a\x12\x01b";
    let answering = async {
        let (id, _) = plugin.asked().await;
        plugin.send(&response(id, answer.to_vec())).await;
    };
    let operation = nri.begin(pod("p"));
    let (created, ()) = tokio::join!(operation.create_container(container("c")), answering);
    assert!(created.unwrap().adjustment.annotations.get("a").is_some());
    let said: Vec<String> = nri.ledger(|ledger| ledger.all()).iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|line| line.contains("unknown fields CreateContainerResponse 15")), "{said:?}");
    drop(plugin);
    nri.stop().await;
}

#[tokio::test(start_paused = true)]
async fn groups_without_an_end_close_their_plugin() {
    check_answer(vec![0x7b], "its answer cannot be read").await;
    check_answer(vec![0x7b; 1 << 20], "its answer cannot be read").await;
}

/// A28, containerd #13733: in Go that was a deadlock.
#[tokio::test(start_paused = true)]
async fn a28_a_plugin_may_call_back_while_it_is_asked() {
    let nri = start("", DONE);
    let mut plugin = Raw::join(&nri, "10-a").await;
    plugin.answered().await;
    let calling_back = async {
        let (id, _) = plugin.asked().await;
        plugin.call("UpdateContainers", &api::UpdateContainersRequest::new()).await;
        assert!(plugin.answered().await.status.is_none(), "it was refused");
        plugin.answer(id, &api::CreateContainerResponse::new()).await;
        plugin
    };
    let begun = Instant::now();
    let operation = nri.begin(pod("p"));
    let (created, plugin) = tokio::join!(operation.create_container(container("c")), calling_back);
    created.map(drop).unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
    drop(plugin);
    nri.stop().await;
}

/// A29.
#[tokio::test(start_paused = true)]
async fn a29_a_plugin_is_told_which_of_its_updates_failed() {
    let unknown =
        |updates: Vec<Update>| Ok(updates.into_iter().filter(|update| update.container_id == "unknown").collect());
    let nri = start("", Node { apply: unknown, ..DONE });
    let mut plugin = Raw::join(&nri, "10-a").await;
    plugin.answered().await;
    let update = |id: &str| api::ContainerUpdate { container_id: id.to_owned(), ..Default::default() };
    let wanted = api::UpdateContainersRequest { update: vec![update("c"), update("unknown")], ..Default::default() };
    plugin.call("UpdateContainers", &wanted).await;
    let answer = api::UpdateContainersResponse::parse_from_bytes(&plugin.answered().await.payload).unwrap();
    assert_eq!(answer.failed, [update("unknown")]);
    drop(plugin);
    nri.stop().await;
}

/// A29.
#[tokio::test(start_paused = true)]
async fn a29_an_error_over_failed_updates_comes_with_the_list_in_one_answer() {
    let apply = |failed| Err(UpdatesFailed { reason: "no such container".to_owned(), failed });
    let nri = start("", Node { apply, ..DONE });
    let mut plugin = Raw::join(&nri, "10-a").await;
    plugin.answered().await;
    let update = vec![api::ContainerUpdate { container_id: "unknown".to_owned(), ..Default::default() }];
    plugin.call("UpdateContainers", &api::UpdateContainersRequest { update, ..Default::default() }).await;
    let answer = plugin.answered().await;
    assert_eq!((answer.status.code, &*answer.status.message), (Code::UNKNOWN.into(), "no such container"));
    let listed = api::UpdateContainersResponse::parse_from_bytes(&answer.payload).unwrap();
    assert_eq!(listed.failed[0].container_id, "unknown");
    drop(plugin);
    nri.stop().await;
}

/// A29: the list and the text are cut. That updates have failed is reported in any case.
#[tokio::test(start_paused = true)]
async fn a29_an_error_over_failed_updates_fits_into_a_message() {
    let apply = |_| {
        let failed = vec![Update::of("x".repeat(1 << 20)); 5];
        Err(UpdatesFailed { reason: "\u{e9}".repeat(1 << 20), failed })
    };
    let nri = start("", Node { apply, ..DONE });
    let mut plugin = Raw::join(&nri, "10-a").await;
    plugin.answered().await;
    plugin.call("UpdateContainers", &api::UpdateContainersRequest::new()).await;
    let answer = plugin.answered().await;
    assert_eq!((answer.status.code, answer.status.message.len()), (Code::UNKNOWN.into(), 4096));
    assert_eq!(api::UpdateContainersResponse::parse_from_bytes(&answer.payload).unwrap().failed.len(), 3);
    drop(plugin);
    nri.stop().await;
}

/// A29: as in Go, failed updates that a plugin asks for when it is synchronized do not keep it from
/// joining.
#[tokio::test(start_paused = true)]
async fn a29_a_plugin_whose_updates_fail_when_it_is_synchronized_is_let_in() {
    let apply = |failed| Err(UpdatesFailed { reason: "no such container".to_owned(), failed });
    let nri = start("", Node { apply, ..DONE });
    let mut joins = Raw::connect(&nri);
    joins.register("10-a").await;
    let (id, _) = joins.asked().await;
    joins.answer(id, &api::ConfigureResponse::new()).await;
    let (id, _) = joins.asked().await;
    let update = vec![api::ContainerUpdate { container_id: "unknown".to_owned(), ..Default::default() }];
    joins.answer(id, &api::SynchronizeResponse { update, ..Default::default() }).await;
    nri.settled().await;
    assert_eq!(nri.plugins().len(), 1);
    let written = nri.ledger(|ledger| ledger.of("unknown"));
    assert!(matches!(written.last().unwrap().what, EntryKind::UpdateFailed { .. }), "{written:?}");
    drop(joins);
    nri.stop().await;
}

/// A47.
#[tokio::test(start_paused = true)]
async fn a47_a_runtime_that_panics_over_an_update_answers_for_it() {
    let nri = start("", Node { apply: |_| panic!("on purpose"), ..DONE });
    let mut plugin = Raw::join(&nri, "10-a").await;
    plugin.answered().await;
    for _ in 0..2 {
        plugin.call("UpdateContainers", &api::UpdateContainersRequest::new()).await;
        assert_eq!(plugin.answered().await.status.code, Code::INTERNAL.into());
    }
    // The same panic during a synchronization, whose answer cannot report it to the plugin.
    let mut joins = Raw::connect(&nri);
    joins.register("20-b").await;
    let (id, _) = joins.asked().await;
    joins.answer(id, &api::ConfigureResponse::new()).await;
    let (id, _) = joins.asked().await;
    let update = vec![api::ContainerUpdate::new()];
    joins.answer(id, &api::SynchronizeResponse { update, ..Default::default() }).await;
    timeout(SECOND, async {
        while nri.plugins().len() != 2 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it does not join");
    drop((plugin, joins));
    nri.stop().await;
}

/// A45.
#[tokio::test(start_paused = true)]
async fn a45_requests_in_flight_end_when_the_runtime_stops_and_later_ones_fail() {
    let before = Handle::current().metrics().num_alive_tasks();
    let nri = start("plugin_defaults.request_timeout = \"1h\"", DONE);
    let plugin = Raw::join(&nri, "10-a").await;
    let begun = Instant::now();
    let (asked, ended) = (nri.begin(pod("p")), nri.begin(pod("q")));
    let stopping = async {
        tokio::time::sleep(SECOND).await;
        nri.stop().await;
    };
    let (asked, ended, ()) = tokio::join!(asked.notify(Notice::RunPod), ended.notify(Notice::StopPod), stopping);
    asked.unwrap();
    ended.unwrap();
    assert!(begun.elapsed() <= SECOND * 3, "{:?}", begun.elapsed());
    let late = nri.begin(pod("p")).notify(Notice::StopPod).await;
    assert_eq!(late.unwrap_err().to_string(), "NRI was stopped");
    drop(plugin);
    assert_eq!(Handle::current().metrics().num_alive_tasks(), before, "a task is left");
}

/// U35: the plugin dies at various moments before a request. In Go it depends on timing whether the
/// request fails.
#[tokio::test(start_paused = true)]
async fn u35_what_comes_of_a_plugins_death_is_decided_by_policy_at_any_moment() {
    // `on_timeout = "fail"` does not apply to a plugin that was gone before the request.
    for (policy, fails) in
        [("plugins.a.required = true", true), ("", false), ("plugins.a.on_timeout = \"fail\"", false)]
    {
        for yields in 0..30 {
            let nri = start(policy, DONE);
            drop(Raw::join(&nri, "10-a").await);
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
            let outcome = nri.begin(pod("p")).notify(Notice::RunPod).await;
            assert_eq!(outcome.is_err(), fails, "after {yields} turns: {outcome:?}");
            nri.stop().await;
        }
    }
}

/// Old plugins have one RPC for most events. Go's server of that time and Rust's `ttrpc` refuse the
/// newer RPCs with different codes.
#[tokio::test(start_paused = true)]
async fn a_plugin_of_old_hears_of_an_event_through_state_change() {
    for (code, text) in [
        (Code::UNIMPLEMENTED, "method"),
        (Code::INVALID_ARGUMENT, "/nri.pkg.api.v1alpha1.Plugin/RunPodSandbox does not exist"),
    ] {
        let nri = start("", DONE);
        let mut plugin = Raw::join(&nri, "10-a").await;
        let asking = async {
            for _ in 0..2 {
                let operation = nri.begin(pod("p"));
                operation.notify(Notice::RunPod).await.unwrap();
                operation.commit();
            }
        };
        let answering = async {
            let (id, request) = plugin.asked().await;
            assert_eq!(request.method, "RunPodSandbox");
            plugin.refuse(id, code, text).await;
            for _ in 0..2 {
                let (id, request) = plugin.asked().await;
                assert_eq!(request.method, "StateChange");
                let change = api::StateChangeEvent::parse_from_bytes(&request.payload).unwrap();
                assert_eq!(change.pod.id, "p");
                plugin.answer(id, &api::Empty::new()).await;
            }
        };
        tokio::join!(asking, answering);
        assert_eq!(nri.plugins()[0].state, State::Active);
        nri.stop().await;
    }
}
