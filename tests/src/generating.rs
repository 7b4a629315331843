//! Random specs and adjustments: few names and keys, so that changes meet, and valid values.

mod nonsense;
mod sane;

use std::fmt;

use cri_domain::generator::host::Allowlist;
use cri_domain::generator::{Host, adjust};
use nri_proto::api::ContainerAdjustment;
use nri_proto::{Adjustment, CreateReply, Field};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use self::nonsense::NONSENSE;
use crate::merging;
use crate::text::text;

/// A spec and an adjustment.
#[derive(Clone)]
pub struct Case {
    /// The spec.
    pub spec: Value,
    /// The adjustment.
    pub adjustment: Adjustment,
    /// The field with an invalid value, if there is one.
    pub nonsense: Option<Field>,
}

/// Generates a case. One in eight has one invalid value.
pub fn case() -> impl Strategy<Value = Case> {
    let nonsense = prop_oneof![7 => Just(None), 1 => select(&NONSENSE[..]).prop_map(Some)];
    (spec(), adjustment(), nonsense).prop_map(|(spec, mut adjustment, nonsense)| {
        let nonsense = nonsense.map(|(field, make)| {
            make(&mut adjustment);
            field
        });
        Case { spec, adjustment, nonsense }
    })
}

/// Generates a valid adjustment.
pub fn adjustment() -> impl Strategy<Value = Adjustment> {
    merging::create_reply().prop_map(|reply| {
        let mut adjustment = CreateReply::from(reply).adjustment.unwrap_or_default();
        sane::adjustment(&mut adjustment);
        adjustment
    })
}

/// Generates a spec: any result of adjusting a small one, and an environment whose entries may be
/// malformed.
pub fn spec() -> impl Strategy<Value = Value> {
    let small = select(vec![
        json!({}),
        json!({"process": {"args": ["sh"], "cwd": "/"}}),
        json!({"linux": {"rootfsPropagation": "rslave", "intelRdt": {"l3CacheSchema": "x"}}, "root": {"path": "r"}}),
        json!({"process": {"env": ["a=0", "b=1"]}, "linux": {"resources": {"cpu": {"burst": 1}, "pids": {"limit": 3}}}}),
        json!({"mounts": [{"destination": "/proc"}, {"destination": "/b/c"}], "annotations": {"a": "0", "z": "0"}}),
    ]);
    let env = prop::collection::vec(select(&["a=1", "b=", "c=x=y", "d", "=e", "other=2"][..]), 0..4);
    (small, adjustment(), adjustment(), env).prop_map(|(mut spec, one, other, mut env)| {
        let host = Host { allow: Allowlist::everything(), ..Host::default() };
        for adjustment in [one, other] {
            _ = adjust(&mut spec, &adjustment, &host);
        }
        env.sort_unstable();
        env.dedup();
        if !env.is_empty() {
            spec["process"]["env"] = json!(env);
        }
        spec
    })
}

/// Formats the case as text, without fields that are not set.
impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { spec, adjustment, nonsense } = self;
        let message = ContainerAdjustment::from(adjustment.clone());
        let text = text(&message);
        write!(f, "spec {spec}\nadjustment, of which {nonsense:?} is nonsense\n{text}")
    }
}
