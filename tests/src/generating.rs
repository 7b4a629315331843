//! Specs and adjustments made at random: few names and few keys, so that they meet, and values that
//! can be meant.

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

/// A spec, and what is to change in it.
#[derive(Clone)]
pub struct Case {
    /// The spec.
    pub spec: Value,
    /// The adjustment.
    pub adjustment: Adjustment,
    /// The field that cannot be meant, if there is one.
    pub nonsense: Option<Field>,
}

/// Makes a case. One in eight has one thing in it that cannot be meant.
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

/// Makes an adjustment that can be meant.
pub fn adjustment() -> impl Strategy<Value = Adjustment> {
    merging::create_reply().prop_map(|reply| {
        let mut adjustment = CreateReply::from(reply).adjustment.unwrap_or_default();
        sane::adjustment(&mut adjustment);
        adjustment
    })
}

/// Makes a spec: anything that comes of adjusting a small one, and an environment as people write
/// it.
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

/// As text, which leaves out what is not set.
impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { spec, adjustment, nonsense } = self;
        let message = ContainerAdjustment::from(adjustment.clone());
        let text = text(&message);
        write!(f, "spec {spec}\nadjustment, of which {nonsense:?} is nonsense\n{text}")
    }
}
