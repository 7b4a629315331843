//! What could be done wrong, and once was. Tests have it done, to see whether they notice; without the feature `mistakes`, which
//! nothing but the tests of this crate has, nobody can.

/// What is done wrong.
#[cfg_attr(not(feature = "mistakes"), expect(unreachable_pub, reason = "nobody is to see it without the feature"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// An exit, or a start that failed, ends whichever run there is when it is told.
    ExitEndsAnyRun,
    /// A start of what had stopped fails, and all plugins are told that it stops.
    RestartUndoneForAll,
    /// A start of what runs fails, and plugins are told that it stops.
    StartOfRunningStops,
    /// The pod that was made for a container is not told to stop when the container's restart fails.
    RestartLeavesPod,
    /// The words of an update hide what they say has stopped from whoever joins.
    UpdateHides,
    /// The words of an update show what they say runs to whoever joins.
    UpdateShows,
    /// What had run before it stopped is what the words of the Stop say.
    StopTellsTheState,
    /// ContainerDetails are told with the state that the runtime says.
    WordsAsTheyAre,
    /// A restart counts as one that plugins know to run before they were asked.
    RestartIsShown,
}
