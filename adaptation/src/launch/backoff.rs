//! The pause before a program that has ended is started again.

use std::time::Duration;

/// The first pause. Each further pause is twice as long.
const FIRST: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(60);
/// If a plugin was connected for at least this long, its next pause is the first pause again.
const WELL: Duration = Duration::from_secs(60);

/// The pauses between the runs of one program.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Backoff {
    /// Returns the pause after a run. `up` is how long the plugin was connected in that run.
    pub(super) fn after(&mut self, up: Duration) -> Duration {
        if up >= WELL {
            self.next = FIRST;
        }
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Backoff;

    #[test]
    fn pauses_double_up_to_a_minute_and_begin_anew_after_a_minute_that_went_well() {
        let mut backoff = Backoff::default();
        let mut after = |up| backoff.after(Duration::from_secs(up)).as_secs();
        assert_eq!([0, 0, 59, 0, 0, 0, 0, 0].map(&mut after), [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!([60, 0, 3600].map(&mut after), [1, 2, 1]);
    }
}
