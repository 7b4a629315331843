//! What the record of who changed what costs.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nri_adaptation::ledger::{Change, Ledger, Occasion, What};
use nri_adaptation::merge::{Applied, Changed, Value};
use nri_proto::{Event, Field, Hook, Hooks, Mount};

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
        for length in [0, 10, 3000, 100, 100_000, 0] {
            for n in 0..20_000 {
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
        for value in [texts, hooks, nothing] {
            for (n_changes, length) in [(1000, 0), (1000, 3), (10, 100), (1, 10_000)] {
                let mut ledger = Ledger::new(limit);
                for n in 0..200 {
                    let changes = (0..n_changes).map(|key| args(key, value(length))).collect();
                    ledger.record_applied(&occasion(n), Applied { changes, ..Applied::default() });
                }
                let count = Count::begin();
                let read = ledger.all();
                assert!(count.held() <= 4 * limit, "{} of {length} take {} bytes", read.len(), count.held());
            }
        }
    });
}

fn texts(length: usize) -> Option<Value> {
    Some(Value::Texts(vec![String::new(); length]))
}

fn hooks(length: usize) -> Option<Value> {
    Some(Hooks { prestart: vec![Hook::default(); length], ..Hooks::default() }.into())
}

fn nothing(_: usize) -> Option<Value> {
    None
}

fn args(key: usize, after: Option<Value>) -> Changed {
    Changed { container: None, field: Field::Args, key: key.to_string(), before: None, after }
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

fn change(length: usize) -> What {
    let Changed { container: _, field, key, before, after } = changed(length);
    What::Changed(Change { field, key, before, after })
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
