//! What the record of who changed what costs.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nri_adaptation::ledger::{Change, Ledger, Occasion, What};
use nri_adaptation::merge::{Applied, Changed, Value};
use nri_proto::{Event, Field, Mount};

use crate::{Count, MIB, alone};

/// Pods and containers come and go, and each leaves changes of all sizes behind.
#[test]
fn the_ledger_holds_no_more_than_it_says() {
    alone(async {
        let limit = MIB;
        let count = Count::begin();
        let mut ledger = Ledger::new(limit);
        // Many small ones, for which the queue grows, then large ones, for which it must not stay so long.
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
