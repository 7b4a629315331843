//! How long a program that has ended is left alone.

use std::time::Duration;

/// The first pause. It doubles with each one that follows.
const FIRST: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(60);
/// A plugin that was asked for so long is well: its next pause is the first again.
const WELL: Duration = Duration::from_secs(60);

/// The pauses of one program.
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
    /// The pause after a run in which it was a plugin for so long.
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
