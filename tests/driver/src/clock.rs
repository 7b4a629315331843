//! Time and CPU time, in the units of the protocol.

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};

/// Returns the time, in nanoseconds, of the clock that all processes of the machine share.
pub(crate) fn monotonic_ns() -> i64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("the clock is always there");
    time.tv_sec() * 1_000_000_000 + time.tv_nsec()
}

/// The CPU time and the context switches of this process so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    pub(crate) user_us: i64,
    pub(crate) system_us: i64,
    pub(crate) voluntary: i64,
    pub(crate) involuntary: i64,
}

impl Used {
    pub(crate) fn now() -> Self {
        let usage: Usage = getrusage(UsageWho::RUSAGE_SELF).expect("it can always be asked of oneself");
        let micros = |time: nix::sys::time::TimeVal| time.tv_sec() * 1_000_000 + time.tv_usec();
        Self {
            user_us: micros(usage.user_time()),
            system_us: micros(usage.system_time()),
            voluntary: usage.voluntary_context_switches(),
            involuntary: usage.involuntary_context_switches(),
        }
    }

    pub(crate) fn add_since(&mut self, before: Self) {
        let now = Self::now();
        self.user_us += now.user_us - before.user_us;
        self.system_us += now.system_us - before.system_us;
        self.voluntary += now.voluntary - before.voluntary;
        self.involuntary += now.involuntary - before.involuntary;
    }
}
