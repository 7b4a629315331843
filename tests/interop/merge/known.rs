/// Rows of `docs/differences.md` that change what becomes of the rest of a case, so that Go's part
/// is [foretold](super::foretold).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Known {
    /// "removal of an annotation, sysctl or network device alone", "who owns such a removal".
    LoneRemoval,
    /// "one mount, device or sysctl under several spellings".
    Spelling,
    /// "removal of a mount, variable or device, and then of a key that has a dash more".
    DashMore,
    /// "a limit of processes in an update".
    Pids,
    /// "an update of the container itself that sets nothing".
    OwnUpdateOfNothing,
    /// "an update with `ignore_failure` that is in conflict".
    IgnoredConflict,
    /// "which of several conflicts is told".
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
