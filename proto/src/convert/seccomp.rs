use protobuf::EnumOrUnknown;

use super::{Translate, names, word};
use crate::model::{ProfileKind, Seccomp, SecurityProfile, Syscall, SyscallArg, Unnamed};
use crate::schema::api;

word! {
    SecurityProfile as SecurityProfile { localhost_ref; profile_type as kind }
}

names! {
    api::security_profile::ProfileType as ProfileKind {
        RUNTIME_DEFAULT as RuntimeDefault,
        UNCONFINED as Unconfined,
        LOCALHOST as Localhost,
    }
}

word! {
    LinuxSeccomp as Seccomp {
        default_action, default_errno, architectures, flags, listener_path, listener_metadata, syscalls
    }
}

word! {
    LinuxSyscall as Syscall { names, action, errno_ret, args }
}

word! {
    LinuxSeccompArg as SyscallArg { index, value, value_two, op }
}
