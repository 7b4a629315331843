//! The table of states, row by row.

use std::time::Duration;

use tokio::time::Instant;

use super::Effect::{self, Became, None as Nothing, Strike};
use super::Gate;
use super::Health;
use super::Rules;
use super::State;
use super::State::{Active, Closed, Silent, Suspended};

const INTERVAL: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// An input of the state machine. Times are in seconds since the beginning.
#[derive(Clone, Copy, Debug)]
enum Input {
    Ask,
    NotAsked,
    Answered,
    Passed,
    Failed,
    FailedPolitely,
    GaveUp,
    TimedOut,
    StillSilent,
    Settled,
    CaughtUp,
    Close,
}
use Input::*;

fn rules(strikes: u32, keep_connected: bool) -> Rules {
    Rules { strikes, keep_connected, interval: INTERVAL, first_pause: FIRST_PAUSE, longest_pause: LONGEST_PAUSE }
}

/// Applies inputs at their times. Compares each effect, the final state and the number of strikes.
#[track_caller]
fn check(rules: Rules, inputs: &[(f64, Input, Effect)], state: State, strikes: u32) -> Health {
    let start = Instant::now();
    let mut health = Health::new(rules);
    for (at, input, expected) in inputs {
        let now = start + Duration::from_secs_f64(*at);
        let effect = match input {
            Ask => match health.gate(now) {
                Gate::Ask => Became(Active),
                Gate::Pass(state) => Became(state),
            },
            NotAsked => {
                health.not_asked();
                Nothing
            }
            Answered => health.answered(false, true),
            Passed => health.answered(true, true),
            Failed => health.timed_out(now, true),
            FailedPolitely => health.gave_up(now, true),
            GaveUp => health.gave_up(now, false),
            TimedOut => health.timed_out(now, false),
            StillSilent => health.still_silent(now),
            Settled => health.settled(now, true),
            CaughtUp => health.caught_up(),
            Close => health.close(),
        };
        assert_eq!(effect, *expected, "{input:?} at {at}");
    }
    assert_eq!((health.state(), health.strikes()), (state, strikes));
    health
}

#[test]
fn an_active_plugin_is_asked() {
    check(rules(3, false), &[(0.0, Ask, Became(Active)), (0.1, Answered, Nothing)], Active, 0);
}

#[test]
fn an_answer_that_does_not_come_in_time_is_one_strike_and_makes_it_silent() {
    let inputs = [(0.0, Ask, Became(Active)), (2.0, TimedOut, Became(Silent)), (2.1, Ask, Became(Silent))];
    check(rules(3, false), &inputs, Silent, 1);
}

#[test]
fn a_silent_plugin_is_active_again_when_nothing_is_overdue_and_it_caught_up() {
    let inputs = [(2.0, TimedOut, Became(Silent)), (2.5, Settled, Nothing), (2.5, CaughtUp, Became(Active))];
    check(rules(3, false), &inputs, Active, 1);
}

#[test]
fn a_late_answer_does_not_clear_the_strikes_and_one_in_time_does() {
    let late = [(2.0, TimedOut, Became(Silent)), (2.5, Settled, Nothing), (2.5, CaughtUp, Became(Active))];
    let in_time = [&late[..], &[(3.0, Ask, Became(Active)), (3.1, Answered, Nothing)]].concat();
    check(rules(3, false), &late, Active, 1);
    check(rules(3, false), &in_time, Active, 0);
}

#[test]
fn each_further_interval_of_silence_is_one_more_strike_until_it_is_closed() {
    let inputs = [
        (2.0, TimedOut, Became(Silent)),
        (4.0, StillSilent, Strike),
        (6.0, StillSilent, Became(Closed)),
        (6.1, Ask, Became(Closed)),
        (8.0, StillSilent, Nothing),
    ];
    check(rules(3, false), &inputs, Closed, 3);
}

#[test]
fn with_one_strike_the_first_timeout_closes_it_as_in_go() {
    check(rules(1, false), &[(2.0, TimedOut, Became(Closed))], Closed, 1);
}

#[test]
fn a_plugin_that_is_to_be_kept_is_suspended_instead_of_closed() {
    let inputs =
        [(2.0, TimedOut, Became(Silent)), (4.0, StillSilent, Became(Suspended)), (4.1, Ask, Became(Suspended))];
    check(rules(2, true), &inputs, Suspended, 2);
}

#[test]
fn a_suspended_plugin_is_tried_by_one_request_after_its_pause() {
    let pause = FIRST_PAUSE.as_secs_f64();
    let inputs = [
        (2.0, GaveUp, Became(Suspended)),
        (2.0 + pause - 0.1, Ask, Became(Suspended)),
        (2.0 + pause, Ask, Became(Active)),
        (2.0 + pause, Ask, Became(Suspended)),
        (2.4 + pause, Answered, Nothing),
        (2.4 + pause, Ask, Became(Suspended)),
        (2.5 + pause, Passed, Became(Active)),
        (2.6 + pause, Ask, Became(Active)),
    ];
    check(rules(1, true), &inputs, Active, 0);
}

#[test]
fn a_suspended_plugin_that_still_owes_an_answer_is_not_tried() {
    let inputs = [(2.0, TimedOut, Became(Suspended)), (1000.0, Ask, Became(Suspended)), (1000.0, CaughtUp, Nothing)];
    check(rules(1, true), &inputs, Suspended, 1);
}

#[test]
fn a_trial_that_is_late_suspends_it_for_longer() {
    let pause = FIRST_PAUSE.as_secs_f64();
    let inputs = [
        (0.0, GaveUp, Became(Suspended)),
        (pause, Ask, Became(Active)),
        (pause + 2.0, Failed, Became(Suspended)),
        (pause + 2.0, Settled, Nothing),
        (pause + 2.0 + pause, Ask, Became(Suspended)),
        (pause + 2.0 + 2.0 * pause, Ask, Became(Active)),
        (pause + 2.0 + 2.0 * pause, FailedPolitely, Became(Suspended)),
    ];
    check(rules(1, true), &inputs, Suspended, 1);
}

#[test]
fn a_request_that_did_not_ask_after_all_leaves_the_trial_to_the_next() {
    let pause = FIRST_PAUSE.as_secs_f64();
    let inputs = [
        (0.0, GaveUp, Became(Suspended)),
        (pause, Ask, Became(Active)),
        (pause, NotAsked, Nothing),
        (pause, Ask, Became(Active)),
    ];
    check(rules(1, true), &inputs, Suspended, 1);
}

#[test]
fn the_last_overdue_answer_ends_a_suspension_at_once_and_clears_no_strikes() {
    let inputs = [
        (2.0, TimedOut, Became(Silent)),
        (2.0, TimedOut, Nothing),
        (4.0, StillSilent, Became(Suspended)),
        (4.1, Settled, Nothing),
        (4.2, Settled, Became(Active)),
    ];
    check(rules(2, true), &inputs, Active, 2);
}

#[test]
fn a_plugin_that_is_suspended_again_without_an_answer_in_time_waits_out_its_pause() {
    let pause = 2.0 * FIRST_PAUSE.as_secs_f64();
    let inputs = [
        (2.0, TimedOut, Became(Suspended)),
        (2.1, Settled, Became(Active)),
        (4.1, TimedOut, Became(Suspended)),
        (4.2, Settled, Nothing),
        (4.0 + pause, Ask, Became(Suspended)),
        (4.1 + pause, Ask, Became(Active)),
        (4.2 + pause, Passed, Became(Active)),
        // The plugin answered in time since the last suspension, so a late answer ends this one.
        (6.2 + pause, TimedOut, Became(Suspended)),
        (6.3 + pause, Settled, Became(Active)),
    ];
    check(rules(1, true), &inputs, Active, 1);
}

#[test]
fn a_late_answer_that_comes_after_the_pause_ends_any_suspension() {
    let inputs = [
        (2.0, TimedOut, Became(Suspended)),
        (2.1, Settled, Became(Active)),
        (4.1, TimedOut, Became(Suspended)),
        (60.0, Settled, Became(Active)),
    ];
    check(rules(1, true), &inputs, Active, 2);
}

#[test]
fn a_plugin_that_has_yet_to_hear_what_it_missed_is_silent_without_a_strike() {
    let now = Instant::now();
    let mut health = Health::new(rules(1, true));
    assert_eq!(health.falls_behind(), Became(Silent));
    assert_eq!((health.strikes(), health.caught_up()), (0, Became(Active)));
    health.timed_out(now, false);
    assert_eq!(health.settled(now, false), Became(Silent));
    assert_eq!(health.caught_up(), Became(Active));
}

#[test]
fn each_pause_is_twice_as_long_as_the_one_before_up_to_the_longest() {
    let mut health = Health::new(rules(1, true));
    let mut now = Instant::now();
    for seconds in [10, 20, 40, 80, 160, 300, 300] {
        health.gave_up(now, true);
        now += Duration::from_secs(seconds);
        assert_eq!(health.resumes(), Some(now));
        assert_eq!(health.gate(now), Gate::Ask);
    }
    health.answered(true, true);
    health.gave_up(now, false);
    assert_eq!(health.resumes(), Some(now + FIRST_PAUSE), "an answer in time was between");
}

#[test]
fn pauses_follow_the_rules_that_hold_when_they_begin() {
    let mut health = Health::new(rules(1, true));
    let now = Instant::now();
    let [first_pause, longest_pause] = [1, 3].map(Duration::from_secs);
    health.follow(Rules { first_pause, longest_pause, ..rules(1, true) });
    for seconds in [1, 2, 3, 3] {
        health.gave_up(now, true);
        assert_eq!(health.resumes(), Some(now + Duration::from_secs(seconds)));
    }
    health.follow(rules(1, true));
    health.gave_up(now, true);
    assert_eq!(health.resumes(), Some(now + FIRST_PAUSE * 16), "it was the fifth in a row");
}

#[test]
fn pauses_do_not_grow_for_ever() {
    let mut health = Health::new(rules(1, true));
    let mut now = Instant::now();
    for _ in 0..50 {
        health.gave_up(now, true);
        now += LONGEST_PAUSE;
        assert_eq!(health.gate(now), Gate::Ask);
    }
}

#[test]
fn overdue_answers_of_several_pods_count_once_in_an_interval() {
    let inputs = [
        (2.0, TimedOut, Became(Silent)),
        (2.1, TimedOut, Nothing),
        (2.2, TimedOut, Nothing),
        (4.0, StillSilent, Strike),
        (4.1, StillSilent, Nothing),
        (5.0, Settled, Nothing),
        (5.0, CaughtUp, Nothing),
        (5.1, Settled, Nothing),
        (5.1, CaughtUp, Nothing),
        (5.2, Settled, Nothing),
        (5.2, CaughtUp, Became(Active)),
    ];
    check(rules(3, false), &inputs, Active, 2);
}

#[test]
fn a_deadline_that_the_plugin_reports_itself_is_a_strike_but_nothing_is_owed() {
    let inputs =
        [(2.0, GaveUp, Strike), (2.1, Ask, Became(Active)), (4.1, GaveUp, Strike), (6.2, GaveUp, Became(Closed))];
    check(rules(3, false), &inputs, Closed, 3);
}

#[test]
fn what_is_closed_stays_closed() {
    let inputs = [
        (0.0, Close, Became(Closed)),
        (0.0, Close, Nothing),
        (1.0, Answered, Nothing),
        (2.0, TimedOut, Nothing),
        (2.0, GaveUp, Nothing),
        (3.0, Settled, Nothing),
        (3.0, CaughtUp, Nothing),
        (4.0, Ask, Became(Closed)),
    ];
    check(rules(3, true), &inputs, Closed, 0);
}
