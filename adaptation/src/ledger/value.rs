//! Values in readable form: text and numbers as such, everything else as an object with upstream's
//! field names.

use std::fmt::{self, Display, Formatter};

use nri_proto::{
    Device, DeviceRule, Hook, Hooks, IoPriority, MemoryPolicy, Mount, Namespace, NetDevice, Rlimit, Scheduler, Seccomp,
    Syscall, SyscallArg,
};
use serde::{Serialize, Serializer};
use serde_json::{Value as Json, json};

use super::line::Line;
use crate::merge::Value;

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json(self).serialize(serializer)
    }
}

/// Displays the value on one line, cut if it is long.
impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Self::Text(text) = self {
            write!(f, "{}", Line(text))
        } else {
            write!(f, "{}", Line(&json(self).to_string()))
        }
    }
}

fn json(value: &Value) -> Json {
    match value {
        Value::Text(text) => json!(text),
        Value::Texts(texts) => json!(texts),
        Value::Signed(number) => json!(number),
        Value::Unsigned(number) => json!(number),
        Value::Flag(flag) => json!(flag),
        Value::Mount(value) => mount(value),
        Value::Device(value) => device(value),
        Value::DeviceRules(rules) => rules.iter().map(device_rule).collect(),
        Value::NetDevice(NetDevice { name, unknown: _ }) => json!({ "name": name }),
        Value::Namespace(value) => namespace(value),
        Value::Hooks(value) => hooks(value),
        Value::IoPriority(IoPriority { class, priority, unknown: _ }) => {
            json!({ "class": class.to_string(), "priority": priority })
        }
        Value::Seccomp(value) => seccomp(value),
        Value::Scheduler(value) => scheduler(value),
        Value::MemoryPolicy(value) => memory_policy(value),
        Value::Rlimit(value) => rlimit(value),
    }
}

fn mount(Mount { destination, kind, source, options, unknown: _ }: &Mount) -> Json {
    json!({ "destination": destination, "type": kind, "source": source, "options": options })
}

fn device(Device { path, kind, major, minor, file_mode, uid, gid, unknown: _ }: &Device) -> Json {
    said(json!({
        "path": path, "type": kind, "major": major, "minor": minor, "file_mode": file_mode, "uid": uid, "gid": gid,
    }))
}

fn device_rule(DeviceRule { allow, kind, major, minor, access, unknown: _ }: &DeviceRule) -> Json {
    said(json!({ "allow": allow, "type": kind, "major": major, "minor": minor, "access": access }))
}

fn namespace(Namespace { kind, path, unknown: _ }: &Namespace) -> Json {
    json!({ "type": kind, "path": path })
}

fn rlimit(Rlimit { kind, hard, soft, unknown: _ }: &Rlimit) -> Json {
    json!({ "type": kind, "hard": hard, "soft": soft })
}

fn memory_policy(MemoryPolicy { mode, nodes, flags, unknown: _ }: &MemoryPolicy) -> Json {
    json!({ "mode": mode.to_string(), "nodes": nodes, "flags": named(flags) })
}

fn hooks(hooks: &Hooks) -> Json {
    let Hooks { prestart, create_runtime, create_container, start_container, poststart, poststop, unknown: _ } = hooks;
    let moments = [
        ("prestart", prestart),
        ("create_runtime", create_runtime),
        ("create_container", create_container),
        ("start_container", start_container),
        ("poststart", poststart),
        ("poststop", poststop),
    ];
    let moments = moments.into_iter().filter(|(_, hooks)| !hooks.is_empty());
    moments.map(|(moment, hooks)| (moment.to_owned(), hooks.iter().map(hook).collect::<Json>())).collect()
}

fn hook(Hook { path, args, env, timeout, unknown: _ }: &Hook) -> Json {
    said(json!({ "path": path, "args": args, "env": env, "timeout": timeout }))
}

fn seccomp(seccomp: &Seccomp) -> Json {
    let Seccomp {
        default_action,
        default_errno,
        architectures,
        flags,
        listener_path,
        listener_metadata,
        syscalls,
        unknown: _,
    } = seccomp;
    said(json!({
        "default_action": default_action,
        "default_errno": default_errno,
        "architectures": architectures,
        "flags": flags,
        "listener_path": listener_path,
        "listener_metadata": listener_metadata,
        "syscalls": syscalls.iter().map(syscall).collect::<Json>(),
    }))
}

fn syscall(Syscall { names, action, errno_ret, args, unknown: _ }: &Syscall) -> Json {
    let args: Json = args.iter().map(syscall_arg).collect();
    said(json!({ "names": names, "action": action, "errno_ret": errno_ret, "args": args }))
}

fn syscall_arg(SyscallArg { index, value, value_two, op, unknown: _ }: &SyscallArg) -> Json {
    json!({ "index": index, "value": value, "value_two": value_two, "op": op })
}

fn scheduler(scheduler: &Scheduler) -> Json {
    let Scheduler { policy, nice, priority, flags, runtime, deadline, period, unknown: _ } = scheduler;
    json!({
        "policy": policy.to_string(),
        "nice": nice,
        "priority": priority,
        "flags": named(flags),
        "runtime": runtime,
        "deadline": deadline,
        "period": period,
    })
}

fn named(flags: &[impl Display]) -> Json {
    flags.iter().map(ToString::to_string).collect()
}

/// Removes the fields that are not set.
fn said(mut object: Json) -> Json {
    if let Some(object) = object.as_object_mut() {
        object.retain(|_, value| !value.is_null());
    }
    object
}
