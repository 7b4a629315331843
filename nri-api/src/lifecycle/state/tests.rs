use proptest::prelude::*;

use super::{Deed, GateKind, GateStep, Goal, Life, PostStep, Refusal, Run, State, Step};

/// What comes of claims one after the other, each made at once, as `Stop Remove Nothing`.
fn check(state: State, goals: &[Goal], expected: &str) {
    let mut life = Life::known(state, Run(1));
    let mut step = |goal: &Goal| {
        let step = life.claim(*goal, Run::LAST);
        if matches!(step, Step::Stop | Step::Remove) {
            life.asked();
        }
        format!("{step:?}")
    };
    let steps: Vec<_> = goals.iter().map(&mut step).collect();
    assert_eq!(steps.join(" "), expected, "{state:?} {goals:?}");
}

#[test]
fn a_stop_is_claimed_once() {
    check(State::Running, &[Goal::Stopped, Goal::Stopped], "Stop Nothing");
    check(State::Created, &[Goal::Stopped, Goal::Stopped], "Stop Nothing");
    check(State::Stopped, &[Goal::Stopped], "Nothing");
}

#[test]
fn a_remove_is_claimed_once_and_after_the_stop() {
    check(State::Running, &[Goal::Removed, Goal::Removed, Goal::Removed], "Stop Remove Nothing");
    check(State::Stopped, &[Goal::Removed, Goal::Removed], "Remove Nothing");
    check(State::Running, &[Goal::Stopped, Goal::Removed, Goal::Stopped], "Stop Remove Nothing");
}

#[test]
fn nothing_is_claimed_while_the_request_of_a_claim_is_not_made_yet() {
    let mut life = Life::known(State::Running, Run(1));
    assert_eq!(life.claim(Goal::Stopped, Run::LAST), Step::Stop);
    assert_eq!(life.claim(Goal::Removed, Run::LAST), Step::Wait, "it could overtake the Stop");
    assert_eq!((life.start(), life.update()), (GateStep::Wait, GateStep::Wait));
    assert_eq!(life.post(Deed::Update), PostStep::Wait);
    life.asked();
    assert_eq!(life.claim(Goal::Removed, Run::LAST), Step::Remove);
}

#[test]
fn a_container_is_shown_until_its_stop_was_told() {
    let mut life = Life::known(State::Running, Run(1));
    life.claim(Goal::Stopped, Run::LAST);
    assert_eq!(life.shown(), Some(State::Running));
    life.stop_told();
    assert_eq!((life.shown(), life.state()), (None, Some(State::Stopped)));
}

#[test]
fn what_is_being_created_is_nowhere_and_has_no_end() {
    let mut life = Life::creating(Run(1));
    assert_eq!((life.shown(), life.state()), (None, None));
    assert_eq!(life.claim(Goal::Removed, Run::LAST), Step::Nothing);
    assert_eq!(life.start(), GateStep::Refused(Refusal::BeingCreated));
    assert_eq!(life.in_the_way(), Refusal::BeingCreated);
    assert!(life.created(State::Created));
    assert_eq!(life.shown(), Some(State::Created));
    assert_eq!(life.claim(Goal::Stopped, Run::LAST), Step::Wait, "its operation has not ended");
    life.asked();
    assert!(!life.created(State::Running), "it is there already");
}

/// Plugins are asked whether it may start, and let it.
fn start(life: &mut Life, run: Run) {
    assert!(matches!(life.start(), GateStep::Ask(_)));
    life.start_called(run);
    life.start_asked(run);
    life.gate_passed(GateKind::Start);
}

/// It stops, and plugins are told.
fn stop(life: &mut Life) {
    assert_eq!(life.claim(Goal::Stopped, Run::LAST), Step::Stop);
    life.asked();
    life.stop_told();
}

#[test]
fn that_it_was_started_is_told_unless_it_has_stopped_or_was_started_again() {
    let mut life = Life::known(State::Created, Run(1));
    let (first, second) = (Run(2), Run(3));
    start(&mut life, first);
    assert_eq!(life.shown(), Some(State::Running));
    assert_eq!(life.claim(Goal::Stopped, Run::LAST), Step::Stop);
    life.asked();
    assert_eq!(life.post(Deed::Start(first)), PostStep::Drop);
    life.stop_told();

    start(&mut life, second);
    assert_eq!(life.post(Deed::Start(first)), PostStep::Drop);
    assert_eq!(life.post(Deed::Start(second)), PostStep::Tell);
}

#[test]
fn a_stop_that_is_told_late_does_not_end_the_next_run() {
    let mut life = Life::known(State::Running, Run(1));
    life.claim(Goal::Stopped, Run::LAST);
    life.asked();
    start(&mut life, Run(2));
    life.stop_told();
    assert_eq!(life.shown(), Some(State::Running));
}

#[test]
fn an_end_that_was_said_of_a_run_does_not_end_the_next_one() {
    let mut life = Life::known(State::Created, Run(1));
    start(&mut life, Run(2));
    let said = life.said();
    stop(&mut life);
    assert_eq!(life.claim(Goal::Stopped, said), Step::Nothing);
    start(&mut life, Run(3));
    assert!(!life.is_to_end(said));
    assert_eq!(life.claim(Goal::Stopped, said), Step::Nothing, "another one has begun");
    assert_eq!(life.claim(Goal::Stopped, life.said()), Step::Stop);
}

#[test]
fn what_is_said_after_a_start_was_called_is_about_the_run_that_it_begins() {
    let mut life = Life::known(State::Stopped, Run(1));
    assert!(!life.may_exit());
    life.start_called(Run(2));
    assert!(life.may_exit());
    let said = life.said();
    start(&mut life, Run(2));
    assert!(life.is_to_end(said));
}

#[test]
fn what_had_stopped_is_stopped_until_plugins_let_it_start_and_again_if_that_fails() {
    let mut life = Life::known(State::Stopped, Run(1));
    assert_eq!(life.start(), GateStep::Ask(State::Stopped));
    assert_eq!(life.shown(), None, "nobody was asked yet");
    life.gate_passed(GateKind::Start);
    start(&mut life, Run(2));
    life.start_undone(Run(2));
    assert_eq!((life.shown(), life.claim(Goal::Stopped, Run::LAST)), (None, Step::Nothing));
}

#[test]
fn a_restart_that_failed_has_ended_when_its_operation_has() {
    let mut life = Life::known(State::Stopped, Run(1));
    assert!(life.has_ended());
    start(&mut life, Run(2));
    assert!(!life.has_ended());
    life.start_undone(Run(2));
    life.ends_operation();
    assert!(!life.has_ended(), "its undo has no place yet");
    life.asked();
    assert!(life.has_ended());
}

#[test]
fn a_start_of_what_runs_begins_no_run() {
    let mut life = Life::known(State::Running, Run(1));
    start(&mut life, Run(2));
    assert_eq!(life.run(), Run(1));
    life.start_undone(Run(2));
    assert!(!life.first_start_failed(Run(2)));
    assert_eq!(life.shown(), Some(State::Running));
}

#[test]
fn no_end_is_claimed_while_plugins_are_asked_about_a_start_or_an_update() {
    let mut life = Life::known(State::Created, Run(1));
    assert!(matches!(life.update(), GateStep::Ask(_)));
    assert!(matches!(life.update(), GateStep::Ask(_)), "those have their own order");
    assert_eq!(life.start(), GateStep::Wait, "an update before it says that it was not started");
    assert_eq!(life.claim(Goal::Stopped, Run::LAST), Step::Wait);
    life.gate_passed(GateKind::Update);
    life.gate_passed(GateKind::Update);
    assert!(matches!(life.start(), GateStep::Ask(_)));
    assert_eq!((life.update(), life.post(Deed::Update)), (GateStep::Wait, PostStep::Wait), "it is being started");
    assert_eq!(life.claim(Goal::Removed, Run::LAST), Step::Wait);
    life.gate_passed(GateKind::Start);
    assert_eq!(life.claim(Goal::Stopped, Run::LAST), Step::Stop);
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Claim(Goal),
    Asked,
    StopTold,
    Start,
    StartAsked,
    PostStart,
    PostUpdate,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        Just(Act::Claim(Goal::Stopped)),
        Just(Act::Claim(Goal::Removed)),
        Just(Act::Asked),
        Just(Act::StopTold),
        Just(Act::Start),
        Just(Act::StartAsked),
        Just(Act::PostStart),
        Just(Act::PostUpdate),
    ];
    proptest::collection::vec(act, 0..60)
}

/// What plugins have heard: the rules alone, without any of the phases.
#[derive(Default)]
struct Heard {
    stopped: bool,
    removed: bool,
    in_flight: bool,
    /// Plugins are being asked about a start.
    asked: bool,
    /// The start that they were told was done.
    posted: Option<Run>,
}

proptest! {
    /// Whatever is done in whatever order, plugins hear of each end once and in order, and of no start after a stop.
    #[test]
    fn ends_are_heard_once_and_in_order_whatever_is_done(acts in acts()) {
        let mut life = Life::known(State::Created, Run(1));
        let (mut heard, mut last, mut n_runs) = (Heard::default(), None::<Run>, 1);
        for act in acts {
            match act {
                Act::Claim(goal) => {
                    let step = life.claim(goal, Run::LAST);
                    let expected = match (heard.in_flight || heard.asked, heard.removed, heard.stopped, goal) {
                        (true, ..) => Step::Wait,
                        (false, true, ..) => Step::Nothing,
                        (false, false, false, _) => Step::Stop,
                        (false, false, true, Goal::Stopped) => Step::Nothing,
                        (false, false, true, Goal::Removed) => Step::Remove,
                    };
                    prop_assert_eq!(step, expected);
                    heard.stopped |= step == Step::Stop;
                    heard.removed |= step == Step::Remove;
                    heard.in_flight |= matches!(step, Step::Stop | Step::Remove);
                }
                Act::Asked => {
                    life.asked();
                    heard.in_flight = false;
                }
                Act::StopTold => life.stop_told(),
                Act::Start => match life.start() {
                    GateStep::Ask(_) => {
                        prop_assert!(!heard.in_flight && !heard.removed && !heard.asked);
                        n_runs += 1;
                        heard.asked = true;
                    }
                    GateStep::Wait => prop_assert!(heard.in_flight || heard.asked),
                    GateStep::Refused(refusal) => {
                        prop_assert!(heard.removed);
                        prop_assert_eq!(refusal, Refusal::BeingRemoved);
                    }
                },
                Act::StartAsked => if std::mem::take(&mut heard.asked) {
                    let run = Run(n_runs);
                    life.start_asked(run);
                    life.gate_passed(GateKind::Start);
                    last = Some(run);
                    heard.stopped = false;
                },
                Act::PostStart => if let Some(run) = last {
                    let step = life.post(Deed::Start(run));
                    prop_assert_eq!(step == PostStep::Drop, heard.stopped || heard.posted == last);
                    heard.in_flight |= step == PostStep::Tell;
                    heard.posted = if step == PostStep::Tell { last } else { heard.posted };
                },
                Act::PostUpdate => {
                    let step = life.post(Deed::Update);
                    prop_assert_eq!(step == PostStep::Drop, heard.removed);
                    prop_assert!(!heard.asked || step != PostStep::Tell);
                    heard.in_flight |= step == PostStep::Tell;
                }
            }
            // Whatever plugins have not heard the end of, one that joins now is shown.
            if !heard.stopped {
                prop_assert!(life.shown().is_some());
            }
            prop_assert!(!(heard.removed && life.shown().is_some()));
        }
    }
}
