//! Mistakes that a test injects to prove that the model in `adaptation/src/tests/model` detects
//! them.
//!
//! A mistake is a variant of [`Mistake`], and a condition in the code that makes it. Outside of
//! tests no mistake can be injected, and the condition is always false.

/// A mistake that the code makes if a test injects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// A joining plugin does not receive the requests of operations that were open when it joined.
    JournalNotKept,
    /// A joining plugin is shown the effects of operations that are still open.
    SnapshotAfterTheFact,
    /// A failed operation is not rolled back.
    UndoLost,
    /// A StopContainer that a plugin missed is delivered twice.
    StopDoubled,
    /// A RemoveContainer or RemovePodSandbox that a plugin missed is never delivered.
    RemoveForgotten,
    /// A backlog is delivered in another order than that of the events.
    BacklogOutOfOrder,
    /// A plugin that missed the requests of an operation receives them although the operation
    /// failed.
    FailureDelivered,
    /// A failed operation is also rolled back for plugins that have not seen its requests.
    UndoneForAll,
    /// Requests wait for a plugin with a backlog although they do not need the plugin.
    BacklogWaitedFor,
    /// A request loses its place in the queue for a plugin when the state of the plugin changes.
    PlaceLost,
    /// The first answer of a suspended plugin makes the plugin active although it has a backlog.
    ProbeMakesActive,
    /// Only a request probes a suspended plugin, and no timer does.
    OnlyRequestsProbe,
    /// A late answer does not end the suspension of a plugin, even if it was the last one overdue.
    LateAnswerKeepsSuspended,
    /// While an answer is overdue, a plugin does not count as catching up, so its backlog is
    /// measured anew afterwards.
    LateAnswerEndsCatchUp,
    /// A late answer is recorded and never applied.
    LateAnswerLost,
}

#[cfg(test)]
thread_local! {
    /// The mistake that the test on this thread has injected.
    static INJECTED: std::cell::Cell<Option<Mistake>> = const { std::cell::Cell::new(None) };
}

impl Mistake {
    /// Injects this mistake, or none, into all code that runs on this thread.
    #[cfg(test)]
    pub(crate) fn inject(mistake: Option<Self>) {
        INJECTED.set(mistake);
    }

    /// Returns whether the test on this thread has injected this mistake.
    #[cfg(test)]
    pub(crate) fn is_injected(self) -> bool {
        INJECTED.get() == Some(self)
    }

    /// Returns false: only tests inject mistakes.
    #[cfg(not(test))]
    pub(crate) const fn is_injected(self) -> bool {
        false
    }
}
