//! Conversions of seccomp policies.

use protobuf::EnumOrUnknown;

use super::{Translate, message, numbers};
use crate::model::{ProfileKind, Seccomp, SecurityProfile, Syscall, SyscallArg, Unnamed};
use crate::schema::api;

message! {
    SecurityProfile as SecurityProfile { profile_type as kind, localhost_ref }, encode
}

numbers! {
    api::security_profile::ProfileType as ProfileKind {
        RUNTIME_DEFAULT as RuntimeDefault,
        UNCONFINED as Unconfined,
        LOCALHOST as Localhost,
    }
}

message! {
    LinuxSeccomp as Seccomp {
        default_action, default_errno, architectures, flags, listener_path, listener_metadata, syscalls
    }, encode
}

message! {
    LinuxSyscall as Syscall { names, action, errno_ret, args }, encode
}

message! {
    LinuxSeccompArg as SyscallArg { index, value, value_two, op }, encode
}
