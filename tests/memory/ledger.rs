//! What the record of who changed what costs.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nri_adaptation::ledger::{Change, EntryKind, Ledger, Occasion};
use nri_adaptation::merge::{Applied, Changed, Value};
use nri_proto::{
    DeviceRule, Event, Field, Hook, Hooks, MemoryPolicy, Mount, Seccomp, Syscall, SyscallArg, api, arbitrary,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use protobuf::EnumOrUnknown;

use crate::{Count, MIB, alone};

/// Pods and containers come and go, and each leaves changes of all sizes behind.
#[test]
fn the_ledger_holds_no_more_than_it_says() {
    alone(async {
        let limit = MIB;
        let count = Count::begin();
        let mut ledger = Ledger::new(limit);
        // Many small ones, for which the queue grows, then large ones, for which it must not stay
        // so long.
        for (length, n_replies) in [(0, 5000), (10, 5000), (3000, 2000), (100, 5000), (100_000, 200), (0, 5000)] {
            for n in 0..n_replies {
                ledger.record(&occasion(n), change(length));
                ledger.record_applied(&occasion(n), applied(length));
            }
            assert!(ledger.n_bytes() <= limit && ledger.n_bytes() > limit / 2, "it says {}", ledger.n_bytes());
            assert!(count.held() <= limit, "it says {} bytes and holds {}", ledger.n_bytes(), count.held());
        }
    });
}

/// Values that are next to nothing as bytes, and changes of next to nothing.
#[test]
fn what_is_read_of_the_ledger_is_bounded_whatever_plugins_put_into_it() {
    alone(async {
        let limit = MIB;
        let calls = [syscalls, named_syscalls, syscalls_with_arguments];
        for value in [texts, rules, options, hooks, filled_hooks, flags, nothing].into_iter().chain(calls) {
            for (n_changes, length) in [(1000, 0), (1000, 1), (1000, 3), (500, 9), (10, 100), (1, 10_000)] {
                let mut ledger = Ledger::new(limit);
                for n in 0..20 {
                    let changes = (0..n_changes).map(|key| args(key, value(length), value(length))).collect();
                    ledger.record_applied(&occasion(n), Applied { changes, ..Applied::default() });
                }
                let count = Count::begin();
                let read = ledger.all();
                let (held, most) = (count.held(), 4 * ledger.n_bytes());
                assert!(held <= most, "{} of {length} take {held} bytes of {most}: {:?}", read.len(), read[0].what);
            }
        }
    });
}

/// The cost of the reply itself counts for little, because it has many changes.
#[test]
fn what_is_read_of_any_values_is_bounded_by_what_they_count() {
    alone(async {
        let value = || proptest::option::of(some_value());
        let mut runner = TestRunner::deterministic();
        for _ in 0..500 {
            let (before, after) = (value(), value()).new_tree(&mut runner).unwrap().current();
            let mut ledger = Ledger::new(usize::MAX);
            let changes = (0..50).map(|key| args(key, before.clone(), after.clone())).collect();
            ledger.record_applied(&occasion(0), Applied { changes, ..Applied::default() });
            let count = Count::begin();
            let read = ledger.all();
            let (held, most) = (count.held(), 4 * ledger.n_bytes());
            assert!(held <= most, "50 times {:?} take {held} bytes of {most}", read[0].what);
        }
    });
}

fn some_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        ".{0,60}".prop_map(Value::Text),
        vec(".{0,40}", 0..20).prop_map(Value::Texts),
        any::<i64>().prop_map(Value::Signed),
        any::<bool>().prop_map(Value::Flag),
        arbitrary::mount().prop_map(Value::from),
        arbitrary::device().prop_map(Value::from),
        vec(arbitrary::device_rule(), 0..4).prop_map(Value::from),
        arbitrary::net_device().prop_map(Value::from),
        arbitrary::namespace().prop_map(Value::from),
        arbitrary::hooks().prop_map(Value::from),
        arbitrary::io_priority().prop_map(Value::from),
        arbitrary::seccomp().prop_map(Value::from),
        arbitrary::scheduler().prop_map(Value::from),
        arbitrary::memory_policy().prop_map(Value::from),
        arbitrary::rlimit().prop_map(Value::from),
    ]
}

fn texts(length: usize) -> Option<Value> {
    Some(Value::Texts(vec![String::new(); length]))
}

fn hooks(length: usize) -> Option<Value> {
    Some(Hooks { prestart: vec![Hook::default(); length], ..Hooks::default() }.into())
}

fn rules(length: usize) -> Option<Value> {
    Some(Value::DeviceRules(vec![DeviceRule::default(); length]))
}

fn options(length: usize) -> Option<Value> {
    Some(Mount { options: vec![String::new(); length], ..Mount::default() }.into())
}

fn filled_hooks(length: usize) -> Option<Value> {
    let hook = Hook { args: vec![String::new()], env: vec![String::new()], ..Hook::default() };
    Some(Hooks { poststop: vec![hook; length], ..Hooks::default() }.into())
}

fn syscalls(length: usize) -> Option<Value> {
    let syscall = Syscall { names: vec![String::new()], args: vec![SyscallArg::default()], ..Syscall::default() };
    Some(Seccomp { syscalls: vec![syscall; length], ..Seccomp::default() }.into())
}

/// Names that are just so long that their lengths are not below 32.
fn named_syscalls(length: usize) -> Option<Value> {
    let syscall = Syscall { names: vec!["n".repeat(32)], ..Syscall::default() };
    Some(Seccomp { syscalls: vec![syscall; length], ..Seccomp::default() }.into())
}

/// Arguments with texts that are just so long that no length is below 32.
fn syscalls_with_arguments(length: usize) -> Option<Value> {
    let arg = SyscallArg { op: "o".repeat(32), ..SyscallArg::default() };
    let syscall = Syscall { args: vec![arg], ..Syscall::default() };
    Some(Seccomp { syscalls: vec![syscall; length], ..Seccomp::default() }.into())
}

fn flags(length: usize) -> Option<Value> {
    let flags = vec![EnumOrUnknown::from_i32(100); length];
    Some(MemoryPolicy::from(api::LinuxMemoryPolicy { flags, ..api::LinuxMemoryPolicy::default() }).into())
}

fn nothing(_: usize) -> Option<Value> {
    None
}

fn args(key: usize, before: Option<Value>, after: Option<Value>) -> Changed {
    Changed { container: None, field: Field::Args, key: key.to_string(), before, after }
}

fn occasion(n: usize) -> Occasion {
    Occasion {
        when: SystemTime::UNIX_EPOCH + Duration::from_millis(n as u64),
        plugin: "10-a".into(),
        event: Some(Event::CreateContainer),
        pod: Some(Arc::from(format!("pod-{n}"))),
        container: Some(Arc::from(format!("container-{n}"))),
        took: None,
        shadow: false,
        in_vain: false,
    }
}

fn change(length: usize) -> EntryKind {
    let Changed { container: _, field, key, before, after } = changed(length);
    EntryKind::Changed(Change { field, key, before, after })
}

/// What a reply changed, in this container and in another.
fn applied(length: usize) -> Applied {
    let own = || changed(length);
    let other = Changed { container: Some("other".to_owned()), ..own() };
    Applied { changes: [own(), own(), other].into_iter().collect(), ..Applied::default() }
}

fn changed(length: usize) -> Changed {
    let mount = Mount {
        destination: "/a".to_owned(),
        options: vec!["x".repeat(length / 2), "y".repeat(length / 2)],
        ..Mount::default()
    };
    let (before, after) = (Some(Value::Text("x".repeat(length))), Some(mount.into()));
    Changed { container: None, field: Field::Mounts, key: "/a".to_owned(), before, after }
}
