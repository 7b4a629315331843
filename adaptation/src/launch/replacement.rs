//! Replaces a running program by a newer one with the same plugin id.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// The action that a running program is to take after a change of the plugin directory. Stronger
/// actions are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProgramWish {
    /// Run, and start again after it has ended.
    Stay,
    /// Run until a newer program has joined. Do not start again.
    GiveWay,
    /// End.
    Leave,
}

/// The programs of one plugin id that run or are to run, the newest last. An older program runs
/// until a newer one has joined.
#[derive(Debug, Default)]
pub(super) struct Lineage(Mutex<Vec<watch::Sender<ProgramWish>>>);

impl Lineage {
    /// Adds a newer program, and asks the older ones to give way. Returns the wish for the new
    /// program.
    pub(super) fn succeed(&self) -> watch::Receiver<ProgramWish> {
        let mut programs = self.lock();
        programs.retain(|program| !program.is_closed());
        for program in programs.iter() {
            wish(program, ProgramWish::GiveWay);
        }
        let (sender, receiver) = watch::channel(ProgramWish::Stay);
        programs.push(sender);
        receiver
    }

    /// Asks all programs that are older than this one to end, because this one has joined.
    pub(super) fn joined(&self, program: &watch::Receiver<ProgramWish>) {
        let mut programs = self.lock();
        let before = programs.iter().position(|other| other.subscribe().same_channel(program)).unwrap_or(0);
        for older in programs.drain(..before) {
            wish(&older, ProgramWish::Leave);
        }
    }

    /// Asks all programs to end.
    pub(super) fn leave(&self) {
        for program in self.lock().drain(..) {
            wish(&program, ProgramWish::Leave);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<watch::Sender<ProgramWish>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Changes a wish, unless the present wish is stronger.
fn wish(program: &watch::Sender<ProgramWish>, new: ProgramWish) {
    program.send_if_modified(|old| {
        let grows = new > *old;
        *old = new.max(*old);
        grows
    });
}

#[cfg(test)]
mod tests {
    use super::Lineage;
    use super::ProgramWish;

    #[test]
    fn an_older_program_stays_until_a_newer_one_has_joined() {
        let lineage = Lineage::default();
        let first = lineage.succeed();
        lineage.joined(&first);
        let second = lineage.succeed();
        assert_eq!([*first.borrow(), *second.borrow()], [ProgramWish::GiveWay, ProgramWish::Stay]);
        // A third program arrives before the second has joined.
        let third = lineage.succeed();
        assert_eq!(
            [&first, &second, &third].map(|program| *program.borrow()),
            [ProgramWish::GiveWay, ProgramWish::GiveWay, ProgramWish::Stay]
        );
        lineage.joined(&second);
        assert_eq!(
            [&first, &second, &third].map(|program| *program.borrow()),
            [ProgramWish::Leave, ProgramWish::GiveWay, ProgramWish::Stay]
        );
        lineage.joined(&third);
        assert_eq!([*second.borrow(), *third.borrow()], [ProgramWish::Leave, ProgramWish::Stay]);
        lineage.leave();
        assert_eq!(*third.borrow(), ProgramWish::Leave);
    }
}
