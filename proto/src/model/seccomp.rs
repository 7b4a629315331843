use super::{Unknown, Unnamed};

/// Where the seccomp policy of a container comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityProfile {
    /// Whose it is (`profile_type` on the wire).
    pub kind: ProfileKind,
    /// The file, for [`ProfileKind::Localhost`].
    pub localhost_ref: String,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

/// Whose a [`SecurityProfile`] is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProfileKind {
    /// The runtime's own.
    #[default]
    RuntimeDefault,
    /// Nobody's: everything is allowed.
    Unconfined,
    /// That of a file on the node.
    Localhost,
    /// A kind that we do not know yet.
    Unnamed(Unnamed<Self>),
}

/// A seccomp policy, as OCI has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seccomp {
    /// What happens to system calls that are not listed, such as `SCMP_ACT_ERRNO`.
    pub default_action: String,
    /// The error that they return.
    pub default_errno: Option<u32>,
    /// The architectures that it applies to, such as `SCMP_ARCH_X86_64`.
    pub architectures: Vec<String>,
    /// How the filter is loaded, such as `SECCOMP_FILTER_FLAG_LOG`.
    pub flags: Vec<String>,
    /// The socket of the process that decides for `SCMP_ACT_NOTIFY`.
    pub listener_path: String,
    /// What that process is told about the container.
    pub listener_metadata: String,
    /// What happens to the system calls that are listed.
    pub syscalls: Vec<Syscall>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

/// What happens to some system calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Syscall {
    /// The names of the system calls.
    pub names: Vec<String>,
    /// What happens, such as `SCMP_ACT_ALLOW`.
    pub action: String,
    /// The error that they return.
    pub errno_ret: Option<u32>,
    /// What their arguments must be for this to apply.
    pub args: Vec<SyscallArg>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

/// What an argument of a system call must be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyscallArg {
    /// Which argument it is, from 0.
    pub index: u32,
    /// What it is compared with, or the mask for `SCMP_CMP_MASKED_EQ`.
    pub value: u64,
    /// What it is compared with once the mask is applied.
    pub value_two: u64,
    /// How it is compared, such as `SCMP_CMP_EQ`.
    pub op: String,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}
