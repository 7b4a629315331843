//! Programs of one name, of which the newest is wanted.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// What the directory says that a launched program is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProgramWish {
    /// It runs, and is started again when it has ended.
    Stay,
    /// It runs until another one has taken its place. It is not started again.
    GiveWay,
    /// It goes.
    Leave,
}

/// The programs of one name that run or are to, the newest last. A newer one is not there until it
/// has joined.
#[derive(Debug, Default)]
pub(super) struct Lineage(Mutex<Vec<watch::Sender<ProgramWish>>>);

impl Lineage {
    /// A newer program is wanted. The others give way to it.
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

    /// This one has joined: those before it leave.
    pub(super) fn joined(&self, program: &watch::Receiver<ProgramWish>) {
        let mut programs = self.lock();
        let before = programs.iter().position(|other| other.subscribe().same_channel(program)).unwrap_or(0);
        for older in programs.drain(..before) {
            wish(&older, ProgramWish::Leave);
        }
    }

    /// None of them is wanted any more.
    pub(super) fn leave(&self) {
        for program in self.lock().drain(..) {
            wish(&program, ProgramWish::Leave);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<watch::Sender<ProgramWish>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wishes only grow.
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
        // Another one comes before the second has joined.
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
