use proptest::prelude::*;

use super::{Lifecycle, State};
use crate::lifecycle::steps::{ApprovalKind, ApprovalStep, Completion, EndGoal, EndStep, PostStep, Refusal, RunId};

/// Checks the results of claims that are made one after the other, each right after the previous
/// one, as `Stop Remove Nothing`.
fn check(state: State, goals: &[EndGoal], expected: &str) {
    let mut life = Lifecycle::known(state, RunId(1));
    let mut step = |goal: &EndGoal| {
        let step = life.claim_end(*goal, RunId::LAST);
        if matches!(step, EndStep::Stop | EndStep::Remove) {
            life.release();
        }
        format!("{step:?}")
    };
    let steps: Vec<_> = goals.iter().map(&mut step).collect();
    assert_eq!(steps.join(" "), expected, "{state:?} {goals:?}");
}

#[test]
fn a_stop_is_claimed_once() {
    check(State::Running, &[EndGoal::Stopped, EndGoal::Stopped], "Stop Nothing");
    check(State::Created, &[EndGoal::Stopped, EndGoal::Stopped], "Stop Nothing");
    check(State::Stopped, &[EndGoal::Stopped], "Nothing");
}

#[test]
fn a_remove_is_claimed_once_and_after_the_stop() {
    check(State::Running, &[EndGoal::Removed, EndGoal::Removed, EndGoal::Removed], "Stop Remove Nothing");
    check(State::Stopped, &[EndGoal::Removed, EndGoal::Removed], "Remove Nothing");
    check(State::Running, &[EndGoal::Stopped, EndGoal::Removed, EndGoal::Stopped], "Stop Remove Nothing");
}

#[test]
fn nothing_is_claimed_while_the_request_of_a_claim_is_not_made_yet() {
    let mut life = Lifecycle::known(State::Running, RunId(1));
    assert_eq!(life.claim_end(EndGoal::Stopped, RunId::LAST), EndStep::Stop);
    assert_eq!(life.claim_end(EndGoal::Removed, RunId::LAST), EndStep::Wait, "it could overtake the Stop");
    assert_eq!((life.request_start(), life.request_update()), (ApprovalStep::Wait, ApprovalStep::Wait));
    assert_eq!(life.claim_post(Completion::Update), PostStep::Wait);
    life.release();
    assert_eq!(life.claim_end(EndGoal::Removed, RunId::LAST), EndStep::Remove);
}

#[test]
fn a_container_is_shown_until_its_stop_was_told() {
    let mut life = Lifecycle::known(State::Running, RunId(1));
    life.claim_end(EndGoal::Stopped, RunId::LAST);
    assert_eq!(life.snapshot_state(), Some(State::Running));
    life.stop_delivered();
    assert_eq!((life.snapshot_state(), life.state()), (None, Some(State::Stopped)));
}

#[test]
fn what_is_being_created_is_nowhere_and_has_no_end() {
    let mut life = Lifecycle::creating(RunId(1));
    assert_eq!((life.snapshot_state(), life.state()), (None, None));
    assert_eq!(life.claim_end(EndGoal::Removed, RunId::LAST), EndStep::Nothing);
    assert_eq!(life.request_start(), ApprovalStep::Refused(Refusal::BeingCreated));
    assert_eq!(life.create_refusal(), Refusal::BeingCreated);
    assert!(life.mark_created(State::Created));
    assert_eq!(life.snapshot_state(), Some(State::Created));
    assert_eq!(life.claim_end(EndGoal::Stopped, RunId::LAST), EndStep::Wait, "its operation has not ended");
    life.release();
    assert!(!life.mark_created(State::Running), "it is there already");
}

/// Asks plugins about a start, which they approve.
fn start(life: &mut Lifecycle, run: RunId) {
    assert!(matches!(life.request_start(), ApprovalStep::Ask(_)));
    life.record_start_call(run);
    life.start_approved(run);
    life.approval_ended(ApprovalKind::Start);
}

/// Stops the object, and delivers the Stop.
fn stop(life: &mut Lifecycle) {
    assert_eq!(life.claim_end(EndGoal::Stopped, RunId::LAST), EndStep::Stop);
    life.release();
    life.stop_delivered();
}

#[test]
fn that_it_was_started_is_told_unless_it_has_stopped_or_was_started_again() {
    let mut life = Lifecycle::known(State::Created, RunId(1));
    let (first, second) = (RunId(2), RunId(3));
    start(&mut life, first);
    assert_eq!(life.snapshot_state(), Some(State::Running));
    assert_eq!(life.claim_end(EndGoal::Stopped, RunId::LAST), EndStep::Stop);
    life.release();
    assert_eq!(life.claim_post(Completion::Start(first)), PostStep::Drop);
    life.stop_delivered();

    start(&mut life, second);
    assert_eq!(life.claim_post(Completion::Start(first)), PostStep::Drop);
    assert_eq!(life.claim_post(Completion::Start(second)), PostStep::Tell);
}

#[test]
fn a_start_that_begins_no_run_takes_no_post_event_from_the_start_that_began_it() {
    let mut life = Lifecycle::known(State::Created, RunId(1));
    let (first, second) = (RunId(2), RunId(3));
    start(&mut life, first);
    start(&mut life, second);
    assert_eq!(life.run(), first);
    assert_eq!(life.claim_post(Completion::Start(first)), PostStep::Tell);
    life.release();
    assert_eq!(life.claim_post(Completion::Start(first)), PostStep::Drop, "it was told");
    assert_eq!(life.claim_post(Completion::Start(second)), PostStep::Tell);
}

#[test]
fn a_stop_that_is_told_late_does_not_end_the_next_run() {
    let mut life = Lifecycle::known(State::Running, RunId(1));
    life.claim_end(EndGoal::Stopped, RunId::LAST);
    life.release();
    start(&mut life, RunId(2));
    life.stop_delivered();
    assert_eq!(life.snapshot_state(), Some(State::Running));
}

#[test]
fn an_end_that_was_said_of_a_run_does_not_end_the_next_one() {
    let mut life = Lifecycle::known(State::Created, RunId(1));
    start(&mut life, RunId(2));
    let said = life.reported_run();
    stop(&mut life);
    assert_eq!(life.claim_end(EndGoal::Stopped, said), EndStep::Nothing);
    start(&mut life, RunId(3));
    assert!(!life.run_needs_stop(said));
    assert_eq!(life.claim_end(EndGoal::Stopped, said), EndStep::Nothing, "another one has begun");
    assert_eq!(life.claim_end(EndGoal::Stopped, life.reported_run()), EndStep::Stop);
}

#[test]
fn what_is_said_after_a_start_was_called_is_about_the_run_that_it_begins() {
    let mut life = Lifecycle::known(State::Stopped, RunId(1));
    assert!(!life.can_exit());
    life.record_start_call(RunId(2));
    assert!(life.can_exit());
    let said = life.reported_run();
    start(&mut life, RunId(2));
    assert!(life.run_needs_stop(said));
}

#[test]
fn an_exit_after_a_restart_that_failed_is_not_told() {
    let mut life = Lifecycle::known(State::Stopped, RunId(1));
    let (first, second) = (RunId(2), RunId(3));
    life.record_start_call(first);
    assert!(life.may_tell_end(first) && life.may_tell_end(second));
    life.start_call_ended(first);
    assert!(!life.can_exit() && !life.may_tell_end(first));
    life.record_start_call(second);
    assert!(life.can_exit() && !life.may_tell_end(first) && life.may_tell_end(second));
}

#[test]
fn what_had_stopped_is_stopped_until_plugins_let_it_start_and_again_if_that_fails() {
    let mut life = Lifecycle::known(State::Stopped, RunId(1));
    assert_eq!(life.request_start(), ApprovalStep::Ask(State::Stopped));
    assert_eq!(life.snapshot_state(), None, "nobody was asked yet");
    life.approval_ended(ApprovalKind::Start);
    start(&mut life, RunId(2));
    life.undo_start(RunId(2));
    assert_eq!((life.snapshot_state(), life.claim_end(EndGoal::Stopped, RunId::LAST)), (None, EndStep::Nothing));
}

#[test]
fn a_restart_that_failed_has_ended_when_its_operation_has() {
    let mut life = Lifecycle::known(State::Stopped, RunId(1));
    assert!(life.is_end_delivered());
    start(&mut life, RunId(2));
    assert!(!life.is_end_delivered());
    life.undo_start(RunId(2));
    life.hold();
    assert!(!life.is_end_delivered(), "its undo has no place yet");
    life.release();
    assert!(life.is_end_delivered());
}

#[test]
fn a_start_of_what_runs_begins_no_run() {
    let mut life = Lifecycle::known(State::Running, RunId(1));
    start(&mut life, RunId(2));
    assert_eq!(life.run(), RunId(1));
    life.undo_start(RunId(2));
    assert!(!life.needs_stop_after_failed_start(RunId(2)));
    assert_eq!(life.snapshot_state(), Some(State::Running));
}

#[test]
fn no_end_is_claimed_while_plugins_are_asked_about_a_start_or_an_update() {
    let mut life = Lifecycle::known(State::Created, RunId(1));
    assert!(matches!(life.request_update(), ApprovalStep::Ask(_)));
    assert!(matches!(life.request_update(), ApprovalStep::Ask(_)), "those have their own order");
    assert_eq!(life.request_start(), ApprovalStep::Wait, "an update before it says that it was not started");
    assert_eq!(life.claim_end(EndGoal::Stopped, RunId::LAST), EndStep::Wait);
    life.approval_ended(ApprovalKind::Update);
    life.approval_ended(ApprovalKind::Update);
    assert!(matches!(life.request_start(), ApprovalStep::Ask(_)));
    assert_eq!(
        (life.request_update(), life.claim_post(Completion::Update)),
        (ApprovalStep::Wait, PostStep::Wait),
        "it is being started"
    );
    assert_eq!(life.claim_end(EndGoal::Removed, RunId::LAST), EndStep::Wait);
    life.approval_ended(ApprovalKind::Start);
    assert_eq!(life.claim_end(EndGoal::Stopped, RunId::LAST), EndStep::Stop);
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Claim(EndGoal),
    RequestContext,
    StopTold,
    Start,
    StartAsked,
    PostStart,
    PostUpdate,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        Just(Act::Claim(EndGoal::Stopped)),
        Just(Act::Claim(EndGoal::Removed)),
        Just(Act::RequestContext),
        Just(Act::StopTold),
        Just(Act::Start),
        Just(Act::StartAsked),
        Just(Act::PostStart),
        Just(Act::PostUpdate),
    ];
    proptest::collection::vec(act, 0..60)
}

/// The events that plugins got: a model with the rules alone, without the phases.
#[derive(Default)]
struct Heard {
    stopped: bool,
    removed: bool,
    in_flight: bool,
    /// Plugins are being asked about a start.
    asked: bool,
    /// The last start for which PostStartContainer was sent.
    posted: Option<RunId>,
}

proptest! {
    /// In any order of calls, plugins get each end once and in order, and no start after a stop.
    #[test]
    fn ends_are_heard_once_and_in_order_whatever_is_done(acts in acts()) {
        let mut life = Lifecycle::known(State::Created, RunId(1));
        let (mut heard, mut last, mut n_runs) = (Heard::default(), None::<RunId>, 1);
        for act in acts {
            match act {
                Act::Claim(goal) => {
                    let step = life.claim_end(goal, RunId::LAST);
                    let expected = match (heard.in_flight || heard.asked, heard.removed, heard.stopped, goal) {
                        (true, ..) => EndStep::Wait,
                        (false, true, ..) => EndStep::Nothing,
                        (false, false, false, _) => EndStep::Stop,
                        (false, false, true, EndGoal::Stopped) => EndStep::Nothing,
                        (false, false, true, EndGoal::Removed) => EndStep::Remove,
                    };
                    prop_assert_eq!(step, expected);
                    heard.stopped |= step == EndStep::Stop;
                    heard.removed |= step == EndStep::Remove;
                    heard.in_flight |= matches!(step, EndStep::Stop | EndStep::Remove);
                }
                Act::RequestContext => {
                    life.release();
                    heard.in_flight = false;
                }
                Act::StopTold => life.stop_delivered(),
                Act::Start => match life.request_start() {
                    ApprovalStep::Ask(_) => {
                        prop_assert!(!heard.in_flight && !heard.removed && !heard.asked);
                        n_runs += 1;
                        heard.asked = true;
                    }
                    ApprovalStep::Wait => prop_assert!(heard.in_flight || heard.asked),
                    ApprovalStep::Refused(refusal) => {
                        prop_assert!(heard.removed);
                        prop_assert_eq!(refusal, Refusal::BeingRemoved);
                    }
                },
                Act::StartAsked => if std::mem::take(&mut heard.asked) {
                    let run = RunId(n_runs);
                    life.start_approved(run);
                    life.approval_ended(ApprovalKind::Start);
                    last = Some(run);
                    heard.stopped = false;
                },
                Act::PostStart => if let Some(run) = last {
                    let step = life.claim_post(Completion::Start(run));
                    prop_assert_eq!(step == PostStep::Drop, heard.stopped || heard.posted == last);
                    heard.in_flight |= step == PostStep::Tell;
                    heard.posted = if step == PostStep::Tell { last } else { heard.posted };
                },
                Act::PostUpdate => {
                    let step = life.claim_post(Completion::Update);
                    prop_assert_eq!(step == PostStep::Drop, heard.removed);
                    prop_assert!(!heard.asked || step != PostStep::Tell);
                    heard.in_flight |= step == PostStep::Tell;
                }
            }
            // A plugin that joins now is shown each object whose end plugins did not get.
            if !heard.stopped {
                prop_assert!(life.snapshot_state().is_some());
            }
            prop_assert!(!(heard.removed && life.snapshot_state().is_some()));
        }
    }
}
