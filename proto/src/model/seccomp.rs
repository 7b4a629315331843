//! Seccomp policies.

use super::{Unknown, Unnamed};

/// The source of the seccomp policy of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityProfile {
    /// The kind of source (`profile_type` on the wire).
    pub kind: ProfileKind,
    /// The file with the policy, for [`ProfileKind::Localhost`].
    pub localhost_ref: String,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

/// The kind of source of a seccomp policy, in a [`SecurityProfile`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProfileKind {
    /// The default policy of the runtime.
    #[default]
    RuntimeDefault,
    /// No policy: all system calls are allowed.
    Unconfined,
    /// A policy in a file on the node.
    Localhost,
    /// A kind that this version of the protocol does not know.
    Unnamed(Unnamed<Self>),
}

/// A seccomp policy, as in the OCI runtime specification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seccomp {
    /// The action for system calls that are not listed, such as `SCMP_ACT_ERRNO`.
    pub default_action: String,
    /// The error number that the default action returns.
    pub default_errno: Option<u32>,
    /// The architectures to which the policy applies, such as `SCMP_ARCH_X86_64`.
    pub architectures: Vec<String>,
    /// The flags for loading the filter, such as `SECCOMP_FILTER_FLAG_LOG`.
    pub flags: Vec<String>,
    /// The socket of the agent that handles `SCMP_ACT_NOTIFY`.
    pub listener_path: String,
    /// Opaque data for the agent that handles `SCMP_ACT_NOTIFY`.
    pub listener_metadata: String,
    /// The rules for system calls.
    pub syscalls: Vec<Syscall>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

/// A rule of a [`Seccomp`] policy for some system calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Syscall {
    /// The names of the system calls.
    pub names: Vec<String>,
    /// The action, such as `SCMP_ACT_ALLOW`.
    pub action: String,
    /// The error number that the action returns.
    pub errno_ret: Option<u32>,
    /// The conditions on the arguments under which the rule applies.
    pub args: Vec<SyscallArg>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

/// A condition on an argument of a system call, in a [`Syscall`] rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyscallArg {
    /// The index of the argument, from 0.
    pub index: u32,
    /// The value with which the argument is compared, or the mask for `SCMP_CMP_MASKED_EQ`.
    pub value: u64,
    /// The value with which the masked argument is compared, for `SCMP_CMP_MASKED_EQ`.
    pub value_two: u64,
    /// The comparison operator, such as `SCMP_CMP_EQ`.
    pub op: String,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}
