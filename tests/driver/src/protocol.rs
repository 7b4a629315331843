//! The protocol: lines with one JSON object each, in both directions.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nri_proto::bounded;
use nri_proto::shape::Shape;
use protobuf::Message;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::sorted;

/// The error for bytes that cannot be decoded.
const OTHER: &str = "not the message that it should be";

/// A message in base64.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(transparent)]
pub(crate) struct Encoded(String);

impl Encoded {
    pub(crate) fn of<M: Message>(message: &M) -> Self {
        let mut bytes = message.write_to_bytes().expect("encoding to memory does not fail");
        sorted::sort(&mut bytes, Shape::of::<M>()).expect("it has just been encoded");
        Self(STANDARD.encode(bytes))
    }

    pub(crate) fn decode<M: Message>(&self) -> Result<M> {
        bounded::parse(&self.bytes()?.into(), usize::MAX).context(OTHER)
    }

    /// Decodes a message in which a plugin asks for changes, and keeps unknown groups as unknown
    /// fields.
    pub(crate) fn decode_wanted<M: Message>(&self) -> Result<M> {
        bounded::parse_wanted(&self.bytes()?.into(), usize::MAX).context(OTHER)
    }

    fn bytes(&self) -> Result<Vec<u8>> {
        STANDARD.decode(&self.0).context("not base64")
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// One line on standard input. An absent member is zero or empty.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Request {
    pub(crate) id: i64,
    pub(crate) cmd: String,
    pub(crate) socket: String,
    pub(crate) payloads: String,
    pub(crate) request_timeout_ms: u64,
    pub(crate) registration_timeout_ms: u64,
    pub(crate) builtin: usize,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) nri_version: String,
    pub(crate) plugin_path: String,
    pub(crate) plugin_config_path: String,
    pub(crate) disable_connections: bool,
    pub(crate) default_validator: Option<DefaultValidator>,
    pub(crate) callbacks: bool,
    pub(crate) sync_events: bool,
    pub(crate) record_metrics: bool,
    pub(crate) strikes: u32,
    pub(crate) policy: String,
    pub(crate) layer: String,
    pub(crate) pods: usize,
    pub(crate) containers: usize,
    pub(crate) big_kb: usize,
    pub(crate) n: usize,
    pub(crate) timeout_ms: u64,
    pub(crate) op: String,
    pub(crate) op2: String,
    pub(crate) mode: String,
    pub(crate) payload: String,
    pub(crate) warmup: usize,
    pub(crate) callers: usize,
    pub(crate) chunk: usize,
    pub(crate) duration_ms: u64,
    pub(crate) inline: bool,
    pub(crate) bin_ms: u64,
    pub(crate) slow_ms: u64,
    pub(crate) sample: bool,
    pub(crate) request_b64: Encoded,
    pub(crate) replies: Vec<Reply>,
    pub(crate) seen: bool,
    pub(crate) spec: Value,
    pub(crate) adjust_b64: Encoded,
    pub(crate) tag: String,
    pub(crate) seq: u64,
    pub(crate) failed_b64: Vec<Encoded>,
    pub(crate) error: String,
    #[serde(flatten)]
    pub(crate) objects: Objects,
}

impl Request {
    /// Reads a line. A null member counts as absent. An error has the id of the command if it could
    /// be read.
    pub(crate) fn read(line: &[u8]) -> Result<Self, (i64, serde_json::Error)> {
        let mut fields: serde_json::Map<String, Value> = serde_json::from_slice(line).map_err(|error| (0, error))?;
        fields.retain(|_, value| !value.is_null());
        let id = fields.get("id").and_then(Value::as_i64).unwrap_or(0);
        Self::deserialize(Value::Object(fields)).map_err(|error| (id, error))
    }
}

/// The settings of the default validator, with upstream's keys.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DefaultValidator {
    pub(crate) enable: bool,
    pub(crate) reject_oci_hook_adjustment: bool,
    pub(crate) reject_runtime_default_seccomp_adjustment: bool,
    pub(crate) reject_unconfined_seccomp_adjustment: bool,
    pub(crate) reject_custom_seccomp_adjustment: bool,
    pub(crate) reject_namespace_adjustment: bool,
    pub(crate) reject_sysctl_adjustment: bool,
    pub(crate) required_plugins: Vec<String>,
    pub(crate) tolerate_missing_plugins_annotation: String,
}

/// A reply of a plugin, as given by the controller.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Reply {
    pub(crate) plugin: String,
    pub(crate) response_b64: Encoded,
}

/// The pods and containers with which a plugin is synchronized.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Objects {
    pub(crate) pods_b64: Vec<Encoded>,
    pub(crate) containers_b64: Vec<Encoded>,
    pub(crate) fail_sync: bool,
}

/// One line on standard output: the answer to a command.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Response {
    pub(crate) id: i64,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hello: Option<Hello>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wait: Option<Wait>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) syncs: Option<Vec<Sync>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<Run>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stats: Option<Stats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<Call>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plugins: Option<Vec<Plugin>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) merge: Option<Merge>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) generate: Option<Generate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metrics: Option<Vec<Metric>>,
    /// Dropped when the answer has been written.
    #[serde(skip)]
    pub(crate) unanswered: Option<oneshot::Sender<()>>,
}

/// The outcome of a command.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Outcome {
    pub(crate) ok: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) error: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) error_code: &'static str,
}

#[derive(Debug, Serialize)]
pub(crate) struct Hello {
    #[serde(rename = "impl")]
    pub(crate) implementation: &'static str,
    pub(crate) version: &'static str,
    pub(crate) pid: u32,
    pub(crate) protocol: u32,
}

#[derive(Debug, Serialize)]
pub(crate) struct Wait {
    pub(crate) n: usize,
    pub(crate) t_ns: i64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sync {
    pub(crate) t0_ns: i64,
    pub(crate) t1_ns: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) error: String,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct Call {
    pub(crate) response_b64: Encoded,
}

/// The result of merging replies.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Merge {
    pub(crate) response_b64: Encoded,
    pub(crate) owners_b64: Encoded,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) error: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) seen_b64: Vec<Encoded>,
}

/// A spec after an adjustment.
#[derive(Debug, Serialize)]
pub(crate) struct Generate {
    pub(crate) spec: Value,
}

#[derive(Debug, Serialize)]
pub(crate) struct Plugin {
    pub(crate) name: String,
    pub(crate) index: String,
    pub(crate) events: i32,
    pub(crate) state: String,
}

/// The measurements of a run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Run {
    pub(crate) op: String,
    pub(crate) mode: String,
    pub(crate) n: usize,
    pub(crate) callers: usize,
    pub(crate) errors: usize,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) error_messages: BTreeMap<String, usize>,
    pub(crate) wall_ns: u64,
    pub(crate) ops_per_s: f64,
    pub(crate) lat_ns: Latency,
    pub(crate) utime_us: i64,
    pub(crate) stime_us: i64,
    pub(crate) cpu_us_per_op: f64,
    pub(crate) vol_ctxsw: i64,
    pub(crate) invol_ctxsw: i64,
    pub(crate) t0_ns: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) series: Vec<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) slow: Vec<Slow>,
    #[serde(skip_serializing_if = "Encoded::is_empty")]
    pub(crate) sample_b64: Encoded,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) by_op: BTreeMap<String, ByOp>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ByOp {
    pub(crate) n: usize,
    pub(crate) lat_ns: Latency,
}

#[derive(Debug, Serialize)]
pub(crate) struct Slow {
    pub(crate) start_ns: u64,
    pub(crate) dur_ns: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) error: String,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Latency {
    pub(crate) min: u64,
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
    pub(crate) p999: u64,
    pub(crate) max: u64,
    pub(crate) mean: u64,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct Stats {
    pub(crate) rss_kb: u64,
    pub(crate) hwm_kb: u64,
    pub(crate) anon_kb: u64,
    pub(crate) pss_kb: u64,
    pub(crate) private_kb: u64,
    pub(crate) threads: u64,
    pub(crate) fds: usize,
    pub(crate) utime_us: i64,
    pub(crate) stime_us: i64,
    pub(crate) plugins: usize,
    pub(crate) tasks: usize,
}

/// A record of the metrics.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Metric {
    Invocation {
        plugin: String,
        op: String,
        #[serde(skip_serializing_if = "String::is_empty")]
        error: String,
    },
    Latency {
        plugin: String,
        op: String,
        ns: u64,
    },
    Adjustments {
        plugin: String,
        op: String,
        adjusts: bool,
        #[serde(skip_serializing_if = "Encoded::is_empty")]
        adjust_b64: Encoded,
        updates: usize,
        evicts: usize,
    },
    Count {
        count: usize,
    },
}

/// A line that is not an answer to a command.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(crate) enum Event {
    Update {
        seq: u64,
        updates_b64: Vec<Encoded>,
        evict_b64: Vec<Encoded>,
    },
    Sync {
        seq: u64,
    },
    Synced {
        plugin: String,
        updates_b64: Vec<Encoded>,
    },
    Plugin {
        plugin: String,
        state: String,
        reason: String,
    },
    Done {
        tag: String,
        #[serde(flatten)]
        outcome: Outcome,
        #[serde(skip_serializing_if = "Encoded::is_empty")]
        response_b64: Encoded,
    },
}
