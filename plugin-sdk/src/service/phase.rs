//! How far a runtime has let the plugin in.

/// How far the runtime has let the plugin in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionPhase {
    /// It is not configured yet.
    New,
    /// The plugin does not like its configuration.
    Refused(String),
    /// It waits to be told what there is.
    Configured {
        /// Whether a runtime that leaves now may have left because it does not know an event.
        can_be_refused: bool,
    },
    /// It hears of what happens.
    Synchronized,
    /// It was told that the runtime goes away.
    ShutDown,
}
