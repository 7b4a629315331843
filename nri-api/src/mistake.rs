//! Mistakes that tests inject to check that they would be noticed. Each of them was a bug once.
//!
//! A mistake is a variant of [`Mistake`], and a condition in the code that makes it. Without the
//! feature `mistakes`, which only the tests of this crate enable, no mistake can be injected, and
//! the condition is always false.

/// A mistake that the code makes if a test injects it.
#[cfg_attr(not(feature = "mistakes"), expect(unreachable_pub, reason = "hidden without the feature"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// An exit or a failed start ends whichever run is current when plugins are notified.
    ExitEndsAnyRun,
    /// If a restart fails, all plugins hear a Stop, not only those that saw the restart.
    RestartUndoneForAll,
    /// If a start of a running container fails, plugins hear a Stop.
    StartOfRunningStops,
    /// If a restart fails, the synthetic pod of the container is not stopped.
    RestartLeavesPod,
    /// An update that reports a stopped container hides the container from plugins that join.
    UpdateHides,
    /// An update that reports a running container shows the container to plugins that join.
    UpdateShows,
    /// The state before a Stop is taken from the container of the Stop.
    StopTellsTheState,
    /// Plugins are told the state that the runtime reports, not the state that they know.
    WordsAsTheyAre,
    /// A restart counts as the start of a container that plugins know, before they were asked.
    RestartIsShown,
}

#[cfg(feature = "mistakes")]
thread_local! {
    /// The mistake that the test on this thread has injected.
    static INJECTED: std::cell::Cell<Option<Mistake>> = const { std::cell::Cell::new(None) };
}

impl Mistake {
    /// Injects this mistake, or none, into all code that runs on this thread.
    #[cfg(feature = "mistakes")]
    pub fn inject(mistake: Option<Self>) {
        INJECTED.set(mistake);
    }

    /// Returns whether the test on this thread has injected this mistake.
    #[cfg(feature = "mistakes")]
    pub(crate) fn is_injected(self) -> bool {
        INJECTED.get() == Some(self)
    }

    /// Returns false: only tests inject mistakes.
    #[cfg(not(feature = "mistakes"))]
    pub(crate) const fn is_injected(self) -> bool {
        false
    }
}
