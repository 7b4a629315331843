use nri_proto::{ProfileKind, Seccomp, SecurityProfile, Syscall, SyscallArg};
use serde_json::Value;

use super::json;
use crate::model::{SeccompRequest, ServerSettings};

/// Returns the seccomp profile of a container: the profile of the request, else that of the
/// deprecated path, else that of the server's settings. A privileged container is unconfined. If
/// the result is `None`, the container is unconfined, too.
pub fn profile(asked: &SeccompRequest, settings: &ServerSettings) -> Option<SecurityProfile> {
    let SeccompRequest { profile, deprecated_path, privileged } = asked;
    if *privileged {
        return Some(of(ProfileKind::Unconfined, ""));
    }
    profile.clone().or_else(|| deprecated(deprecated_path)).or_else(|| settings.unset_seccomp_profile.clone())
}

/// Converts a deprecated path. An invalid path counts as not set.
fn deprecated(path: &str) -> Option<SecurityProfile> {
    match path {
        "unconfined" => Some(of(ProfileKind::Unconfined, "")),
        "runtime/default" | "docker/default" => Some(of(ProfileKind::RuntimeDefault, "")),
        path => path.strip_prefix("localhost/").map(|file| of(ProfileKind::Localhost, file)),
    }
}

fn of(kind: ProfileKind, localhost_ref: &str) -> SecurityProfile {
    SecurityProfile { kind, localhost_ref: localhost_ref.to_owned(), ..SecurityProfile::default() }
}

pub(super) fn policy(seccomp: &Value) -> Seccomp {
    Seccomp {
        default_action: json::text(seccomp, "defaultAction"),
        default_errno: json::small(seccomp, "defaultErrnoRet"),
        architectures: json::texts(seccomp, "architectures"),
        flags: json::texts(seccomp, "flags"),
        listener_path: json::text(seccomp, "listenerPath"),
        listener_metadata: json::text(seccomp, "listenerMetadata"),
        syscalls: json::all(seccomp, "syscalls", |syscall| Some(self::syscall(syscall))),
        ..Seccomp::default()
    }
}

fn syscall(syscall: &Value) -> Syscall {
    Syscall {
        names: json::texts(syscall, "names"),
        action: json::text(syscall, "action"),
        errno_ret: json::small(syscall, "errnoRet"),
        args: json::all(syscall, "args", |arg| {
            Some(SyscallArg {
                index: json::small(arg, "index")?,
                value: json::unsigned(arg, "value")?,
                value_two: json::unsigned(arg, "valueTwo").unwrap_or_default(),
                op: json::text(arg, "op"),
                ..SyscallArg::default()
            })
        }),
        ..Syscall::default()
    }
}
