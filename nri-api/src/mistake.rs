//! Faults that tests inject to check that they would be noticed. Each of them was a bug once.
//!
//! Without the feature `mistakes`, which only the tests of this crate enable, no fault can be
//! injected.

/// A fault that a test injects.
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
