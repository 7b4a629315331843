use std::sync::Arc;

use nri_proto::{Container, Event, Pod};

use super::Journal;
use super::JournalEnd;
use super::JournalFull;
use super::OperationId;
use super::OperationOutcome;
use crate::api::request::{Request, Subject};
use crate::operation::rollback::BegunObject;

/// Parses a request: `p1 RunPodSandbox`, or with a container `p1 CreateContainer c1`.
fn request(words: &str) -> Arc<Request> {
    let mut words = words.split(' ');
    let pod = Pod { id: words.next().unwrap().to_owned(), ..Pod::default() };
    let name = words.next().unwrap();
    let event = Event::ALL.into_iter().find(|event| event.rpc() == name).unwrap();
    let subject = words.next().map_or(Subject::Pod, |id| {
        Subject::Container(Arc::new(Container { id: id.to_owned(), ..Container::default() }))
    });
    Arc::new(Request::new(event, Arc::new(pod), subject))
}

fn words(request: &Request) -> String {
    let container = request.container().map(|container| format!(" {}", container.id)).unwrap_or_default();
    format!("{} {}{container}", request.pod().id, request.event().rpc())
}

/// Applies a script to a journal and compares the requests that are delivered then. A line of the
/// script is `open 1 p1`, `hold 1 p1 StartContainer c`, `add p1 ...`, `commit 1` or `fail 1`;
/// `back` adds at the front, and `forget` removes the ends of an object. The requests of an open
/// operation follow behind a colon.
fn check(script: &str, told: &str) {
    let mut journal = Journal::new(1 << 20);
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (done, asked) = line.split_once(':').unwrap_or((line, ""));
        let (verb, rest) = done.trim().split_once(' ').unwrap();
        let operation = || OperationId(rest.split(' ').next().unwrap().parse().unwrap());
        let behind = || rest.split_once(' ').unwrap().1;
        let asked: Vec<_> = asked.split(',').map(str::trim).filter(|one| !one.is_empty()).map(request).collect();
        match verb {
            "open" => journal.open(operation(), behind().into()).unwrap(),
            "hold" => journal.hold(operation(), request(behind()), JournalEnd::Back).unwrap(),
            "add" => journal.add(request(rest), JournalEnd::Back).unwrap(),
            "back" => journal.add(request(rest), JournalEnd::Front).unwrap(),
            "forget" => journal.forget_ends_of(&request(rest), BegunObject::ends_of(request(rest).event(), None)),
            "commit" => drop(journal.end(operation(), &asked, OperationOutcome::Committed).unwrap()),
            "fail" => drop(journal.end(operation(), &asked, OperationOutcome::Failed).unwrap()),
            _ => panic!("{verb}"),
        }
    }
    let mut lines = Vec::new();
    while let Some(request) = journal.pop(|_| false) {
        lines.push(words(&request));
    }
    let expected: Vec<_> = told.split(',').map(str::trim).filter(|one| !one.is_empty()).collect();
    assert_eq!(lines, expected, "{script}");
    if journal.is_empty() {
        assert_eq!(journal.bytes, 0, "{script}");
    }
}

#[test]
fn what_is_so_in_any_case_is_told_in_order() {
    check(
        "add p1 StopPodSandbox
         add p2 StopPodSandbox
         add p1 RemovePodSandbox",
        "p1 StopPodSandbox, p2 StopPodSandbox, p1 RemovePodSandbox",
    );
}

#[test]
fn what_a_plugin_has_not_taken_comes_first() {
    check(
        "add p1 RemovePodSandbox
         back p1 StopPodSandbox",
        "p1 StopPodSandbox, p1 RemovePodSandbox",
    );
}

#[test]
fn what_was_asked_in_an_operation_is_told_when_it_is_committed() {
    check("hold 1 p1 CreateContainer c", "");
    check(
        "hold 1 p1 CreateContainer c
         commit 1",
        "p1 CreateContainer c",
    );
}

#[test]
fn what_follows_about_the_pod_waits_behind_it_and_other_pods_do_not() {
    let script = "open 1 p1
         hold 2 p1 StartContainer d
         add p1 StopContainer e
         add p2 StopPodSandbox
         commit 2";
    check(script, "p2 StopPodSandbox");
    check(
        &format!("{script}\ncommit 1: p1 CreateContainer c, p1 PostCreateContainer c"),
        "p1 CreateContainer c, p1 PostCreateContainer c, p1 StartContainer d, p1 StopContainer e, p2 StopPodSandbox",
    );
}

#[test]
fn nothing_is_told_of_an_operation_that_failed() {
    check("open 1 p1\nfail 1: p1 RunPodSandbox", "");
    check("open 1 p1\nfail 1: p1 CreateContainer c, p1 PostCreateContainer c, p1 StopContainer c", "");
    check("hold 1 p1 CreateContainer c\nhold 1 p1 RemoveContainer c\nfail 1", "");
    check("hold 1 p1 UpdateContainer c\nfail 1", "");
}

#[test]
fn an_end_is_told_even_if_the_operation_failed() {
    check("open 1 p1\nfail 1: p1 StopContainer c", "p1 StopContainer c");
    check(
        "hold 1 p1 PostCreateContainer c\nhold 1 p1 RemoveContainer c\nfail 1",
        "p1 PostCreateContainer c, p1 RemoveContainer c",
    );
    check("open 1 p1\nfail 1: p1 CreateContainer c, p1 StopContainer d", "p1 StopContainer d");
}

#[test]
fn an_end_waits_only_for_what_it_ends() {
    check("hold 1 p1 StopContainer c", "p1 StopContainer c");
    check("hold 1 p1 CreateContainer c\nhold 1 p1 StopContainer c\nhold 1 p2 StopContainer d", "p2 StopContainer d");
}

#[test]
fn what_was_never_seen_need_not_end() {
    check(
        "add p1 StopContainer c
         add p1 RemoveContainer c
         add p1 RemoveContainer d
         add p1 StopPodSandbox
         forget p1 CreateContainer c",
        "p1 RemoveContainer d, p1 StopPodSandbox",
    );
    check("add p1 StopPodSandbox\nforget p1 RunPodSandbox", "");
}

#[test]
fn a_plugin_is_told_of_an_operation_only_once() {
    check(
        "open 1 p1
         commit 1: p1 CreateContainer c
         commit 1: p1 CreateContainer c
         fail 1: p1 CreateContainer c",
        "p1 CreateContainer c",
    );
}

#[test]
fn whether_a_pod_is_held_is_known() {
    let mut journal = Journal::new(1 << 20);
    journal.open(OperationId(1), "p1".into()).unwrap();
    journal.add(request("p2 StopPodSandbox"), JournalEnd::Back).unwrap();
    assert!(journal.holds("p1") && !journal.holds("p2") && !journal.holds("p3"));
}

#[test]
fn a_journal_has_a_bound_in_bytes() {
    let one = super::size(&request("p1 StopPodSandbox"));
    let mut journal = Journal::new(2 * one);
    journal.add(request("p1 StopPodSandbox"), JournalEnd::Back).unwrap();
    journal.hold(OperationId(1), request("p2 RunPodSandbox"), JournalEnd::Back).unwrap();
    assert_eq!(journal.add(request("p3 StopPodSandbox"), JournalEnd::Back), Err(JournalFull));
    journal.pop(|_| false).unwrap();
    journal.open(OperationId(2), "p4".into()).unwrap();
    let asked = [request("p4 StopPodSandbox"), request("p4 RemovePodSandbox")];
    assert_eq!(journal.end(OperationId(2), &asked, OperationOutcome::Committed).unwrap_err(), JournalFull);
}
