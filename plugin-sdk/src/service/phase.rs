//! The phases of a session.

/// How far the registration of the plugin has come on this connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionPhase {
    /// The runtime has not configured the plugin yet.
    New,
    /// The plugin refused its configuration, with this message.
    Refused(String),
    /// The plugin is configured, and waits for the snapshot.
    Configured {
        /// Whether a runtime that disconnects now may have rejected the subscription, because the
        /// runtime does not know one of the events.
        can_be_refused: bool,
    },
    /// The plugin has handled the snapshot. It receives events.
    Synchronized,
    /// The runtime has announced that it is shutting down.
    ShutDown,
}
