use nri_proto::{Field, Seccomp, Syscall, SyscallArg};
use oci_spec::runtime::{Arch, LinuxSeccompAction, LinuxSeccompFilterFlag, LinuxSeccompOperator};
use serde_json::Value;

use super::check::FieldCheck;
use super::document::{self, Object, new_object};
use super::{SpecError, check};

/// Replaces the seccomp policy as a whole.
pub(super) fn adjust(spec: &mut Object, policy: &Seccomp) -> Result<(), SpecError> {
    let Seccomp {
        default_action,
        default_errno,
        architectures,
        flags,
        listener_path,
        listener_metadata,
        syscalls,
        unknown: _,
    } = policy;
    let checked = check::field(Field::SeccompPolicy, "");
    check_action(checked, default_action)?;
    for architecture in architectures {
        checked.known::<Arch>(architecture, "an architecture is unknown")?;
    }
    for flag in flags {
        checked.known::<LinuxSeccompFilterFlag>(flag, "a flag is unknown")?;
    }
    if !listener_path.is_empty() {
        checked.path(listener_path)?;
    }
    checked.text(listener_metadata)?;
    let syscalls = syscalls.iter().map(|rule| syscall(checked, rule)).collect::<Result<Vec<_>, _>>()?;
    let policy = new_object([
        ("defaultAction", default_action.as_str().into()),
        ("defaultErrnoRet", (*default_errno).into()),
        ("architectures", architectures.as_slice().into()),
        ("flags", flags.as_slice().into()),
        ("listenerPath", listener_path.as_str().into()),
        ("listenerMetadata", listener_metadata.as_str().into()),
        ("syscalls", syscalls.into()),
    ]);
    document::set(spec, &["linux"], "seccomp", policy)
}

fn syscall(checked: FieldCheck<'_>, syscall: &Syscall) -> Result<Value, SpecError> {
    let Syscall { names, action, errno_ret, args, unknown: _ } = syscall;
    check_action(checked, action)?;
    checked.require(!names.is_empty(), "a rule names no system call")?;
    let is_name = |name: &String| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    checked.require(names.iter().all(is_name), "this is not the name of a system call")?;
    let args = args.iter().map(|one| arg(checked, one)).collect::<Result<Vec<_>, _>>()?;
    Ok(new_object([
        ("names", names.as_slice().into()),
        ("action", action.as_str().into()),
        ("errnoRet", (*errno_ret).into()),
        ("args", args.into()),
    ]))
}

fn arg(checked: FieldCheck<'_>, arg: &SyscallArg) -> Result<Value, SpecError> {
    let SyscallArg { index, value, value_two, op, unknown: _ } = arg;
    checked.within(index, &(0..=5), "a system call has no such argument")?;
    checked.known::<LinuxSeccompOperator>(op, "a comparison is unknown")?;
    Ok(new_object([
        ("index", (*index).into()),
        ("value", (*value).into()),
        ("valueTwo", if *value_two == 0 { Value::Null } else { (*value_two).into() }),
        ("op", op.as_str().into()),
    ]))
}

fn check_action(checked: FieldCheck<'_>, action: &str) -> Result<(), SpecError> {
    checked.known::<LinuxSeccompAction>(action, "an action is unknown")
}

#[cfg(test)]
mod tests {
    use oci_spec::runtime::LinuxSeccomp;
    use serde_json::json;

    use super::super::testing::{adjusted, check_linux, check_linux_refused};
    use super::*;

    fn policy() -> Seccomp {
        let arg =
            SyscallArg { index: 1, value: 2, value_two: 3, op: "SCMP_CMP_MASKED_EQ".to_owned(), ..Default::default() };
        Seccomp {
            default_action: "SCMP_ACT_ERRNO".to_owned(),
            default_errno: Some(38),
            architectures: vec!["SCMP_ARCH_X86_64".to_owned()],
            flags: vec!["SECCOMP_FILTER_FLAG_LOG".to_owned()],
            listener_path: "/run/agent".to_owned(),
            listener_metadata: "x".to_owned(),
            syscalls: vec![Syscall {
                names: vec!["read".to_owned(), "write".to_owned()],
                action: "SCMP_ACT_ALLOW".to_owned(),
                errno_ret: Some(0),
                args: vec![arg],
                ..Syscall::default()
            }],
            ..Seccomp::default()
        }
    }

    #[test]
    fn a_policy_is_replaced_as_a_whole_with_its_default_errno() {
        let expected = json!({
            "defaultAction": "SCMP_ACT_ERRNO",
            "defaultErrnoRet": 38,
            "architectures": ["SCMP_ARCH_X86_64"],
            "flags": ["SECCOMP_FILTER_FLAG_LOG"],
            "listenerPath": "/run/agent",
            "listenerMetadata": "x",
            "syscalls": [{
                "names": ["read", "write"],
                "action": "SCMP_ACT_ALLOW",
                "errnoRet": 0,
                "args": [{"index": 1, "value": 2, "valueTwo": 3, "op": "SCMP_CMP_MASKED_EQ"}],
            }],
        });
        check_linux(
            json!({"linux": {"seccomp": {"defaultAction": "SCMP_ACT_ALLOW", "future": 1}}}),
            |it| it.seccomp_policy = Some(policy()),
            json!({"linux": {"seccomp": expected}}),
        );
    }

    #[test]
    fn u17_a_spec_without_linux_gets_a_policy() {
        let spec = adjusted(json!({}), |it| it.linux.get_or_insert_default().seccomp_policy = Some(policy())).unwrap();
        serde_json::from_value::<LinuxSeccomp>(spec["linux"]["seccomp"].clone()).unwrap();
    }

    #[test]
    fn what_no_runtime_knows_is_refused() {
        let check = |change: fn(&mut Seccomp), problem: &str| {
            let mut policy = policy();
            change(&mut policy);
            check_linux_refused(|it| it.seccomp_policy = Some(policy), &format!("SeccompPolicy: {problem}"));
        };
        check(|it| it.default_action.clear(), "an action is unknown");
        check(|it| it.syscalls[0].action = "allow".to_owned(), "an action is unknown");
        check(|it| it.architectures.push("x86".to_owned()), "an architecture is unknown");
        check(|it| it.flags.push("LOG".to_owned()), "a flag is unknown");
        check(|it| it.syscalls[0].names.clear(), "a rule names no system call");
        check(|it| it.syscalls[0].names.push("a b".to_owned()), "this is not the name of a system call");
        check(|it| it.syscalls[0].args[0].index = 6, "a system call has no such argument");
        check(|it| it.syscalls[0].args[0].op.clear(), "a comparison is unknown");
        check(|it| it.listener_path = "agent".to_owned(), "the path is not absolute");
    }
}
