/// The rows of `docs/differences.md` that affect the rest of a case, so that Go's result is
/// [predicted](super::foretold).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Known {
    /// "removal of an annotation, sysctl or network device alone", "who owns such a removal".
    LoneRemoval,
    /// "one mount, device or sysctl under several spellings".
    Spelling,
    /// "removal of a mount, variable or device, and then of a key with one more dash in front".
    DashMore,
    /// "a limit of processes in an update".
    Pids,
    /// "an update of the container itself that sets nothing".
    OwnUpdateOfNothing,
    /// "an update with `ignore_failure` that is in conflict".
    IgnoredConflict,
    /// "which of several conflicts is reported".
    WhichConflict,
}

impl Known {
    pub(super) const ALL: [Self; 7] = [
        Self::LoneRemoval,
        Self::Spelling,
        Self::DashMore,
        Self::Pids,
        Self::OwnUpdateOfNothing,
        Self::IgnoredConflict,
        Self::WhichConflict,
    ];
}
