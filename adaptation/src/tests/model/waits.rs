//! Checks that requests of the runtime do not wait without need. A pure function of the requests
//! and of what plugins received, with the times of both.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// A request that the runtime made.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The event and the object: `StartContainer p1`.
    pub(super) what: String,
    /// The number of the pod.
    pub(super) pod: u64,
    pub(super) step: usize,
    pub(super) made: Instant,
    pub(super) returned: Instant,
    /// When the operation ended, if it has.
    pub(super) ended: Option<Instant>,
    /// Whether plugins can veto the event.
    pub(super) is_gate: bool,
    pub(super) succeeded: bool,
    /// Whether the operation was abandoned.
    pub(super) is_abandoned: bool,
}

impl Call {
    pub(super) fn took(&self) -> Duration {
        self.returned - self.made
    }

    /// Returns whether the operation stayed open after the request returned.
    fn stayed_open(&self) -> bool {
        self.ended.is_none_or(|ended| ended > self.returned)
    }

    /// Returns whether the operation was open for any time, so that a plugin may have joined or
    /// caught up meanwhile.
    fn took_time(&self) -> bool {
        self.ended.is_none_or(|ended| ended > self.made)
    }

    /// Returns when a plugin that has caught up must have received the event, if the operation was
    /// committed. The events of an operation that stayed open are delivered after its end, beside
    /// other requests.
    fn is_due(&self) -> Option<Instant> {
        let ended = self.ended.filter(|_| !self.is_abandoned)?;
        Some(if self.stayed_open() { ended + Duration::from_secs(1) } else { ended })
    }

    fn is_open_at(&self, time: Instant) -> bool {
        self.made <= time && time <= self.returned
    }
}

/// A request as a plugin received it.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) what: String,
    pub(super) begun: Instant,
    /// When the plugin answered the request.
    pub(super) ended: Option<Instant>,
    /// Whether the plugin answered, rather than gave up.
    pub(super) is_answer: bool,
}

/// The limits of waits for an unwell plugin. All other plugins answer at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    /// How long the plugin may take to answer.
    pub(super) request_timeout: Duration,
    /// Whether the plugin has one request at a time, so that other requests wait.
    pub(super) is_serial: bool,
    /// How long a request that can be vetoed may wait until the plugin has caught up, if the plugin
    /// is required.
    pub(super) gates_wait: Duration,
}

/// Returns an error text if a request took too long. `plugins` has the requests that each unwell
/// plugin received.
///
/// While a request is open, an unwell plugin is being asked, within its `request_timeout`, about
/// this request. If the plugin has one request at a time, it may also be asked about another
/// request that the runtime waits for. Requests that the plugin receives after the runtime went on
/// without it are its backlog. Only a request that can be vetoed and needs the plugin waits for the
/// backlog. There is one exception: events of an operation that was open while the plugin caught up
/// are delivered after the operation has ended. If the plugin has one request at a time, another
/// request may have to wait for one such delivery.
pub(super) fn check_waits(calls: &[Call], plugins: &[(Vec<Delivery>, Promise)]) -> Option<String> {
    let by_what: HashMap<&str, &Call> = calls.iter().map(|call| (&*call.what, call)).collect();
    let lanes: Vec<_> =
        plugins.iter().map(|(deliveries, promise)| Lane::of(calls, &by_what, deliveries, *promise)).collect();
    let gates_wait = plugins.iter().map(|(_, promise)| promise.gates_wait).max().unwrap_or_default();
    calls.iter().filter(|call| !call.took().is_zero()).find_map(|call| {
        let waited = uncovered(call, &union(lanes.iter().flat_map(|lane| lane.may_hold_up(call)).collect()));
        let waited = waited.saturating_sub(lanes.iter().map(|lane| lane.shares_with(call)).sum());
        let limit = if call.is_gate { gates_wait } else { Duration::ZERO };
        (waited > limit).then(|| {
            let backlog: usize = lanes.iter().map(|lane| lane.told_meanwhile(call)).sum();
            let at = call.made - calls.iter().map(|call| call.made).min().unwrap_or(call.made);
            format!(
                "{} at {at:?} took {:?}, for {waited:?} of which nobody was asked about anything that the runtime waited for; meanwhile plugins were \
                 told {backlog} requests of their backlogs",
                call.what,
                call.took()
            )
        })
    })
}

/// The requests that one plugin received, with their times.
struct Lane {
    promise: Promise,
    /// The requests about each pod that the runtime waited for. A plugin continues with a request
    /// that was cut short.
    asked: HashMap<u64, Vec<Interval>>,
    /// The time that the runtime waited for the plugin, for all pods together, as disjoint
    /// intervals in order.
    busy: Vec<Interval>,
    /// The late deliveries about pods with an operation that had been open for a while.
    held: Vec<Interval>,
    /// When each request of the backlog was delivered.
    told: Vec<Instant>,
}

impl Lane {
    fn of(calls: &[Call], by_what: &HashMap<&str, &Call>, deliveries: &[Delivery], promise: Promise) -> Self {
        let opened: HashMap<u64, usize> =
            calls.iter().rev().filter(|call| call.took_time()).map(|call| (call.pod, call.step)).collect();
        let was_open = |call: &Call| opened.get(&call.pod).is_some_and(|first| *first <= call.step);
        let mut lane = Self { promise, asked: HashMap::new(), busy: Vec::new(), held: Vec::new(), told: Vec::new() };
        for had in deliveries {
            match by_what.get(&*had.what) {
                Some(call) if call.is_open_at(had.begun) => {
                    lane.asked.entry(call.pod).or_default().push(interval(had, promise));
                    continue;
                }
                Some(call) if was_open(call) => lane.held.push(interval(had, promise)),
                Some(_) | None => {}
            }
            lane.told.push(had.begun);
        }
        lane.busy = union(lane.asked.values().flatten().copied().collect());
        lane
    }

    /// Returns the times at which the plugin was asked about something that the request may have
    /// waited for.
    fn may_hold_up(&self, call: &Call) -> Vec<Interval> {
        if !self.promise.is_serial {
            return self.asked.get(&call.pod).cloned().unwrap_or_default();
        }
        let first = self.busy.partition_point(|(_, ended)| *ended <= call.made);
        self.busy[first..].iter().take_while(|(begun, _)| *begun < call.returned).copied().collect()
    }

    /// Returns how long the request may have waited for the late delivery of an operation that had
    /// been open.
    fn shares_with(&self, call: &Call) -> Duration {
        let shared = self.held.iter().map(|(begun, ended)| {
            let (begun, ended) = ((*begun).max(call.made), (*ended).min(call.returned));
            ended.saturating_duration_since(begun)
        });
        shared.filter(|_| self.promise.is_serial).max().unwrap_or_default()
    }

    fn told_meanwhile(&self, call: &Call) -> usize {
        self.told.iter().filter(|told| call.is_open_at(**told)).count()
    }
}

/// Returns an error text if the plugin received a wrong event since its snapshot.
///
/// At `now`, a plugin that `is_even` must have received every event. No plugin may receive an event
/// twice, out of order, or without having been asked if the event did not happen.
pub(super) fn check_told(
    calls: &[Call],
    deliveries: &[Delivery],
    shown: Instant,
    now: Instant,
    is_even: bool,
) -> Option<String> {
    let by_what: HashMap<&str, &Call> = calls.iter().map(|call| (&*call.what, call)).collect();
    let mut told: HashMap<&str, Instant> = HashMap::new();
    let mut last: HashMap<u64, usize> = HashMap::new();
    for Delivery { what, begun, .. } in deliveries {
        if told.insert(what, *begun).is_some() {
            return Some(format!("{what} was told twice"));
        }
        // The request is still open.
        let Some(call) = by_what.get(&**what) else { continue };
        if call.is_abandoned && !call.is_open_at(*begun) {
            return Some(format!("{what} was told although it did not happen"));
        }
        if last.insert(call.pod, call.step).is_some_and(|before| before > call.step) {
            return Some(format!("{what} was told after what came later"));
        }
    }
    let is_missing = |call: &&Call| {
        let is_due = call.made >= shown && call.is_due().is_some_and(|due| due <= now);
        is_due && told.get(&*call.what).is_none_or(|told| *told > now)
    };
    let missing = calls.iter().filter(is_missing).count();
    let first = calls.iter().find(is_missing)?;
    is_even.then(|| format!("{missing} requests were not told, the first is {}", first.what))
}

/// Returns an error text if a request succeeded without the answer of a required plugin.
pub(super) fn check_required(calls: &[Call], deliveries: &[Delivery], request_timeout: Duration) -> Option<String> {
    let by_what: HashMap<&str, &Delivery> = deliveries.iter().map(|had| (&*had.what, had)).collect();
    let has_answered = |call: &Call| {
        by_what.get(&*call.what).is_some_and(|had| {
            let in_time = had.ended.is_some_and(|ended| ended <= call.returned && ended - had.begun <= request_timeout);
            call.is_open_at(had.begun) && in_time && had.is_answer
        })
    };
    let without = calls.iter().find(|call| call.is_gate && call.succeeded && !has_answered(call))?;
    Some(format!("{} succeeded without the required plugin", without.what))
}

type Interval = (Instant, Instant);

/// Returns the time from the delivery until the answer or the timeout.
fn interval(had: &Delivery, promise: Promise) -> Interval {
    let late = had.begun + promise.request_timeout;
    (had.begun, had.ended.map_or(late, |ended| ended.min(late)))
}

/// Returns the union of the intervals, as disjoint intervals in order.
fn union(mut intervals: Vec<Interval>) -> Vec<Interval> {
    intervals.sort_unstable();
    let mut union: Vec<Interval> = Vec::new();
    for (begun, ended) in intervals {
        match union.last_mut() {
            Some((_, last)) if begun <= *last => *last = ended.max(*last),
            _ => union.push((begun, ended)),
        }
    }
    union
}

/// Returns how long a request was open outside the intervals, which are disjoint and in order.
fn uncovered(call: &Call, intervals: &[Interval]) -> Duration {
    let first = intervals.partition_point(|(_, ended)| *ended <= call.made);
    let overlapping = intervals[first..].iter().take_while(|(begun, _)| *begun < call.returned);
    let covered = overlapping.map(|(begun, ended)| *ended.min(&call.returned) - *begun.max(&call.made));
    call.took() - covered.sum::<Duration>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates times, requests and deliveries from milliseconds.
    struct Clock(Instant);

    impl Clock {
        fn at(&self, millis: u64) -> Instant {
            self.0 + Duration::from_millis(millis)
        }

        fn call(&self, step: usize, made: u64, returned: u64) -> Call {
            let what = format!("step {step}");
            let (made, returned) = (self.at(made), self.at(returned));
            let (is_gate, succeeded, is_abandoned) = (step.is_multiple_of(2), true, false);
            let ended = Some(returned);
            Call { what, pod: 0, step, made, returned, ended, is_gate, succeeded, is_abandoned }
        }

        fn had(&self, step: usize, begun: u64, ended: Option<u64>) -> Delivery {
            let ended = ended.map(|ended| self.at(ended));
            Delivery { what: format!("step {step}"), begun: self.at(begun), ended, is_answer: ended.is_some() }
        }
    }

    const PROMISE: Promise =
        Promise { request_timeout: Duration::from_secs(2), is_serial: true, gates_wait: Duration::ZERO };

    fn waits(calls: &[Call], had: &[Delivery], promise: Promise) -> Option<String> {
        check_waits(calls, &[(had.to_vec(), promise)])
    }

    #[test]
    fn a_request_may_wait_for_its_own_answer_and_for_those_before_it() {
        let clock = Clock(Instant::now());
        let calls = [clock.call(1, 0, 50), clock.call(3, 10, 100), clock.call(5, 200, 2200), clock.call(7, 2000, 2200)];
        let had = [clock.had(1, 0, Some(50)), clock.had(3, 50, Some(100)), clock.had(5, 200, Some(9000))];
        assert_eq!(waits(&calls, &had, PROMISE), None);
        let per_pod = Promise { is_serial: false, ..PROMISE };
        let apart = [0, 1, 2, 3].map(|pod: usize| Call { pod: u64::try_from(pod).unwrap(), ..calls[pod].clone() });
        let wrong = waits(&apart, &had, per_pod).unwrap();
        assert!(wrong.starts_with("step 3 at 10ms took 90ms, for 40ms of which"), "{wrong}");
    }

    #[test]
    fn a_request_may_not_wait_for_the_backlog_of_a_plugin_that_it_does_not_need() {
        let clock = Clock(Instant::now());
        let calls = [clock.call(1, 0, 0), clock.call(2, 0, 0), clock.call(4, 100, 350)];
        let had = [clock.had(1, 100, Some(200)), clock.had(2, 200, Some(300)), clock.had(4, 300, Some(350))];
        let wrong = waits(&calls, &had, PROMISE).unwrap();
        assert!(wrong.starts_with("step 4 at 100ms took 250ms, for 200ms of which"), "{wrong}");
        let required = Promise { gates_wait: Duration::from_millis(200), ..PROMISE };
        assert_eq!(waits(&calls, &had, required), None);
        let silent = [clock.call(1, 0, 2500)];
        assert!(waits(&silent, &[clock.had(1, 0, None)], PROMISE).is_some(), "longer than the timeout");
    }

    #[test]
    fn a_request_may_wait_for_one_delivery_of_what_stayed_open() {
        let clock = Clock(Instant::now());
        let open = |step| Call { ended: Some(clock.at(200)), pod: 1, ..clock.call(step, 0, 0) };
        let had = [clock.had(1, 200, Some(300)), clock.had(2, 300, Some(400)), clock.had(4, 400, Some(450))];
        let after_one = [open(1), open(2), clock.call(4, 300, 450)];
        assert_eq!(waits(&after_one, &had, PROMISE), None);
        let after_two = [open(1), open(2), clock.call(4, 220, 450)];
        let wrong = waits(&after_two, &had, PROMISE).unwrap();
        assert!(wrong.starts_with("step 4 at 220ms took 230ms, for 80ms of which"), "{wrong}");
        assert!(waits(&after_one, &had, Promise { is_serial: false, ..PROMISE }).is_some());
    }

    #[test]
    fn a_request_may_wait_for_the_answers_of_several_plugins() {
        let clock = Clock(Instant::now());
        let calls = [clock.call(1, 0, 100), clock.call(3, 0, 150)];
        let serial = (vec![clock.had(1, 0, Some(50)), clock.had(3, 50, Some(100))], PROMISE);
        let per_pod = Promise { is_serial: false, ..PROMISE };
        let other = (vec![clock.had(1, 50, Some(100)), clock.had(3, 100, Some(150))], per_pod);
        assert_eq!(check_waits(&calls, &[serial.clone(), other.clone()]), None);
        assert!(check_waits(&calls, &[serial]).is_some() && check_waits(&calls, &[other]).is_some());
    }

    #[test]
    fn what_happened_is_told_once_and_in_order_and_what_did_not_is_not() {
        let clock = Clock(Instant::now());
        let calls = [clock.call(0, 0, 10), clock.call(1, 20, 20), clock.call(2, 30, 30)];
        let (first, second, third) = (clock.had(0, 0, None), clock.had(1, 40, None), clock.had(2, 50, None));
        let check = |calls: &[Call], had: &[&Delivery], now: u64, is_even: bool| {
            let had: Vec<_> = had.iter().copied().cloned().collect();
            check_told(calls, &had, clock.at(0), clock.at(now), is_even).unwrap_or_default()
        };
        assert_eq!(check(&calls, &[&first, &second, &third], 60, true), "");
        assert_eq!(check(&calls, &[&first, &second], 60, false), "", "the rest may come");
        assert_eq!(check(&calls, &[&first, &second], 25, true), "1 requests were not told, the first is step 1");
        assert_eq!(check(&calls, &[&first, &third, &second], 60, true), "step 1 was told after what came later");
        assert_eq!(check(&calls, &[&first, &second, &second], 60, true), "step 1 was told twice");
        let refused = Call { succeeded: false, is_abandoned: true, ..clock.call(2, 30, 30) };
        let calls = [calls[0].clone(), calls[1].clone(), refused];
        assert_eq!(check(&calls, &[&first, &second], 60, true), "");
        assert_eq!(check(&calls, &[&first, &second, &third], 60, true), "step 2 was told although it did not happen");
    }

    #[test]
    fn a_gate_succeeds_only_with_the_answer_of_a_required_plugin() {
        let clock = Clock(Instant::now());
        let calls = [clock.call(1, 0, 0), clock.call(2, 0, 50)];
        let check = |had: Delivery| check_required(&calls, &[had], PROMISE.request_timeout).is_none();
        assert!(check(clock.had(2, 10, Some(50))));
        assert!(!check(clock.had(2, 10, Some(60))), "it answered later");
        assert!(!check(clock.had(2, 60, Some(60))), "it was asked later");
        assert!(!check(Delivery { is_answer: false, ..clock.had(2, 10, Some(50)) }), "it gave up");
    }
}
