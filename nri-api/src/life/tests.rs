use proptest::prelude::*;

use super::{Deed, GateStep, Goal, Life, PostStep, Refusal, Run, State, Step};

/// What comes of claims one after the other, each made at once, as `Stop Remove Nothing`.
fn check(state: State, goals: &[Goal], expected: &str) {
    let mut life = Life::known(state);
    let mut step = |goal: &Goal| {
        let step = life.claim(*goal);
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
    let mut life = Life::known(State::Running);
    assert_eq!(life.claim(Goal::Stopped), Step::Stop);
    assert_eq!(life.claim(Goal::Removed), Step::Wait, "it could overtake the Stop");
    assert_eq!((life.start(), life.update()), (GateStep::Wait, GateStep::Wait));
    assert_eq!(life.post(Deed::Update), PostStep::Wait);
    life.asked();
    assert_eq!(life.claim(Goal::Removed), Step::Remove);
}

#[test]
fn a_container_is_shown_until_its_stop_was_told() {
    let mut life = Life::known(State::Running);
    life.claim(Goal::Stopped);
    assert_eq!(life.shown(), Some(State::Running));
    life.stop_told();
    assert_eq!((life.shown(), life.state()), (None, Some(State::Stopped)));
}

#[test]
fn what_is_being_created_is_nowhere_and_has_no_end() {
    let mut life = Life::creating();
    assert_eq!((life.shown(), life.state()), (None, None));
    assert_eq!(life.claim(Goal::Removed), Step::Nothing);
    assert_eq!(life.start(), GateStep::Refused(Refusal::BeingCreated));
    assert_eq!(life.in_the_way(), Refusal::BeingCreated);
    assert!(life.created(State::Created));
    assert_eq!(life.shown(), Some(State::Created));
    assert_eq!(life.claim(Goal::Stopped), Step::Wait, "its operation has not ended");
    life.asked();
    assert!(!life.created(State::Running), "it is there already");
}

#[test]
fn that_it_was_started_is_told_unless_it_has_stopped_or_was_started_again() {
    let start = |life: &mut Life| match life.start() {
        GateStep::Ask(run) => {
            life.gate_passed();
            run
        }
        other @ (GateStep::Wait | GateStep::Refused(_)) => unreachable!("{other:?}"),
    };
    let mut life = Life::known(State::Created);
    let first = start(&mut life);
    life.start_asked(first);
    assert_eq!(life.shown(), Some(State::Running));
    assert_eq!(life.claim(Goal::Stopped), Step::Stop);
    life.asked();
    assert_eq!(life.post(Deed::Start(first)), PostStep::Drop);
    life.stop_told();

    let second = start(&mut life);
    life.start_asked(second);
    assert_eq!(life.post(Deed::Start(first)), PostStep::Drop);
    assert_eq!(life.post(Deed::Start(second)), PostStep::Tell);
}

#[test]
fn a_stop_that_is_told_late_does_not_end_the_next_run() {
    let mut life = Life::known(State::Running);
    life.claim(Goal::Stopped);
    life.asked();
    assert!(matches!(life.start(), GateStep::Ask(_)));
    life.stop_told();
    assert_eq!(life.shown(), Some(State::Created));
}

#[test]
fn no_end_is_claimed_while_plugins_are_asked_about_a_start_or_an_update() {
    let mut life = Life::known(State::Created);
    assert!(matches!(life.start(), GateStep::Ask(_)));
    assert_eq!(life.update(), GateStep::Ask(()), "those have their own order");
    assert_eq!(life.claim(Goal::Stopped), Step::Wait);
    life.gate_passed();
    assert_eq!(life.claim(Goal::Removed), Step::Wait);
    life.gate_passed();
    assert_eq!(life.claim(Goal::Stopped), Step::Stop);
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
    /// How many starts plugins are being asked about.
    asked: u32,
    /// The start that they were told was done.
    posted: Option<Run>,
}

proptest! {
    /// Whatever is done in whatever order, plugins hear of each end once and in order, and of no start after a stop.
    #[test]
    fn ends_are_heard_once_and_in_order_whatever_is_done(acts in acts()) {
        let mut life = Life::known(State::Created);
        let (mut heard, mut last) = (Heard::default(), None::<Run>);
        for act in acts {
            match act {
                Act::Claim(goal) => {
                    let step = life.claim(goal);
                    let expected = match (heard.in_flight || heard.asked > 0, heard.removed, heard.stopped, goal) {
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
                    GateStep::Ask(run) => {
                        prop_assert!(!heard.in_flight && !heard.removed);
                        last = Some(run);
                        heard.asked += 1;
                        heard.stopped = false;
                    }
                    GateStep::Wait => prop_assert!(heard.in_flight),
                    GateStep::Refused(refusal) => {
                        prop_assert!(heard.removed);
                        prop_assert_eq!(refusal, Refusal::BeingRemoved);
                    }
                },
                Act::StartAsked => {
                    if let Some(run) = last {
                        life.start_asked(run);
                    }
                    life.gate_passed();
                    heard.asked = heard.asked.saturating_sub(1);
                }
                Act::PostStart => if let Some(run) = last {
                    let step = life.post(Deed::Start(run));
                    prop_assert_eq!(step == PostStep::Drop, heard.stopped || heard.posted == last);
                    heard.in_flight |= step == PostStep::Tell;
                    heard.posted = if step == PostStep::Tell { last } else { heard.posted };
                },
                Act::PostUpdate => {
                    let step = life.post(Deed::Update);
                    prop_assert_eq!(step == PostStep::Drop, heard.removed);
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
