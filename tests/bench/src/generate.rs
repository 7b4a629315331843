//! Applying an adjustment to the spec of a container: this implementation beside Go's own, in one
//! run.
//!
//! Go's side is `tests/interop/peers/cmd/generator`: NRI's spec generator. Two things are measured
//! on both sides: the whole way from text to text, which is what containerd does for each
//! container, and the way in memory alone, where Go edits its structures in place and we a document
//! that stays as it is if anything fails.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cri_domain::generator::{Host, adjust, adjust_json};
use nri_proto::api::ContainerAdjustment;
use nri_proto::{Adjustment, Container};
use protobuf::Message;
use serde_json::{Value, json};

use crate::options::Options;
use crate::process::{Process, command};
use crate::rounds::Rounds;
use crate::sample::{Sample, cpu_used};
use crate::{merge, payload};

/// The bar: the largest ratio to Go's time, from text to text.
pub(crate) const BAR: f64 = 0.5;
/// The number of specs that are prepared before they are adjusted.
const CHUNK: usize = 100;
/// The number of adjustments of one turn.
const TURN: usize = 1_500;

/// The result for one way of adjusting a spec.
pub(crate) struct Row {
    what: &'static str,
    bar: Option<f64>,
    rounds: Rounds,
}

/// Returns the rows, the length of the spec, and whether they meet the bar.
pub(crate) fn compare(options: &Options) -> Result<(Vec<Row>, usize, bool)> {
    let mut generator = Process::start(command(&options.peers.join("generator"), options.realtime))?;
    let question = Question::new();
    let text = compare_in(Way::Text, &question, &mut generator, options)?;
    let memory = compare_in(Way::Memory, &question, &mut generator, options)?;
    let met = text.rounds.ratio <= BAR;
    Ok((vec![text, memory], question.text.len(), met))
}

pub(crate) fn table(rows: &[Row], bytes: usize) -> String {
    let mut table = format!(
        "A spec of {bytes} bytes.\n\n| what | p50, Go | p50, Rust | ratio | ratio of CPU | bar | |\n|---|--:|--:|--:|--:|--:|---|\n"
    );
    for Row { what, bar, rounds: Rounds { go_us, rust_us, ratio, cpu_ratio } } in rows {
        let (bar, met) = match bar {
            Some(bar) => (format!("≤ {bar:.2}"), if ratio <= bar { "met" } else { "**missed**" }),
            None => ("none".to_owned(), ""),
        };
        let line =
            format!("| {what} | {go_us:.1} µs | {rust_us:.1} µs | {ratio:.2} | {cpu_ratio:.2} | {bar} | {met} |");
        writeln!(table, "{line}").expect("writing to a string does not fail");
    }
    table
}

#[derive(Clone, Copy)]
enum Way {
    Text,
    Memory,
}

fn compare_in(way: Way, question: &Question, generator: &mut Process, options: &Options) -> Result<Row> {
    let repeat = (TURN * options.scale / 100).max(CHUNK);
    let line = question.line(way, repeat)?.to_string();
    let rounds = Rounds::measure(options.rounds, || generator.ask::<Sample>(&line), || question.run(way, repeat))?;
    let (what, bar) = match way {
        Way::Text => ("from text to text", Some(BAR)),
        Way::Memory => ("in memory", None),
    };
    Ok(Row { what, bar, rounds })
}

/// A spec and an adjustment.
struct Question {
    spec: Value,
    text: String,
    adjustment: Adjustment,
}

impl Question {
    fn new() -> Self {
        let spec = spec();
        let adjustment = merge::reply(0).adjustment.unwrap_or_default();
        Self { text: spec.to_string(), spec, adjustment }
    }

    fn line(&self, way: Way, repeat: usize) -> Result<Value> {
        let adjust = STANDARD.encode(ContainerAdjustment::from(self.adjustment.clone()).write_to_bytes()?);
        let alone = matches!(way, Way::Memory);
        Ok(json!({"spec": self.spec, "adjust": adjust, "repeat": repeat, "alone": alone}))
    }

    /// Adjusts the spec `repeat` times.
    fn run(&self, way: Way, repeat: usize) -> Result<Sample> {
        let host = Host::of_this_machine();
        let (mut took, mut cpu) = (vec![], Duration::ZERO);
        while took.len() < repeat {
            let count = CHUNK.min(repeat - took.len());
            let specs: Vec<Option<Value>> =
                (0..count).map(|_| matches!(way, Way::Memory).then(|| self.spec.clone())).collect();
            let before = cpu_used()?;
            // The results are kept, so that they are freed after the measurement.
            let mut made = Vec::with_capacity(count);
            for spec in specs {
                let start = Instant::now();
                let adjusted = match spec {
                    Some(mut spec) => {
                        adjust(&mut spec, &self.adjustment, &host)?;
                        Made::Spec(spec)
                    }
                    None => Made::Text(adjust_json(&self.text, &self.adjustment, &host)?.0),
                };
                took.push(start.elapsed());
                made.push(adjusted);
            }
            cpu += cpu_used()? - before;
        }
        Sample::new(took, cpu)
    }
}

#[expect(dead_code, reason = "what was made is only freed")]
enum Made {
    Text(String),
    Spec(Value),
}

/// Returns the spec of the relayed container, as containerd makes it for Kubernetes with the
/// default seccomp policy: nearly four hundred system calls by their names, and a few by their
/// arguments.
fn spec() -> Value {
    let container = Container::from(payload::request().container.unwrap_or_default());
    let linux = container.linux.unwrap_or_default();
    let mounts: Vec<Value> = container
        .mounts
        .iter()
        .map(|it| json!({"destination": it.destination, "type": it.kind, "source": it.source, "options": it.options}))
        .collect();
    let devices: Vec<Value> = linux
        .devices
        .iter()
        .map(|it| json!({"path": it.path, "type": it.kind, "major": it.major, "minor": it.minor, "fileMode": 0o666}))
        .collect();
    let namespaces = ["pid", "ipc", "uts", "mount", "network", "cgroup"].map(|kind| json!({"type": kind}));
    let capabilities: Vec<String> = (0..14).map(|n| format!("CAP_NUMBER_{n}")).collect();
    let names: Vec<String> = (0..370).map(|n| format!("call_{n:04}")).collect();
    let args = json!([{"index": 0, "value": 2_114_060_288, "op": "SCMP_CMP_MASKED_EQ"}]);
    let special: Vec<Value> =
        (0..12).map(|n| json!({"names": [format!("special_{n}")], "action": "SCMP_ACT_ALLOW", "args": args})).collect();
    let mut syscalls = vec![json!({"names": names, "action": "SCMP_ACT_ALLOW"})];
    syscalls.extend(special);
    let paths: Vec<String> = (0..16).map(|n| format!("/proc/masked/{n}")).collect();
    json!({
        "ociVersion": "1.3.0",
        "process": {
            "user": {"uid": 0, "gid": 0, "additionalGids": [0, 1, 2]},
            "args": container.args,
            "env": container.env,
            "cwd": "/",
            "capabilities": {"bounding": capabilities, "effective": capabilities, "permitted": capabilities},
            "oomScoreAdj": 968,
            "noNewPrivileges": true,
        },
        "root": {"path": "rootfs", "readonly": true},
        "mounts": mounts,
        "annotations": container.annotations,
        "linux": {
            "resources": {
                "devices": [{"allow": false, "access": "rwm"}],
                "memory": {"limit": 1 << 30},
                "cpu": {"shares": 1024, "quota": 100_000, "period": 100_000},
            },
            "cgroupsPath": linux.cgroups_path,
            "namespaces": namespaces,
            "devices": devices,
            "maskedPaths": paths,
            "readonlyPaths": paths,
            "seccomp": {
                "defaultAction": "SCMP_ACT_ERRNO",
                "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
                "syscalls": syscalls,
            },
        },
    })
}
