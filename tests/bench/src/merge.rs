//! Measures the merge of the replies to one CreateContainer, in one process: this implementation
//! beside Go's own, in one run.
//!
//! Go's side is `tests/interop/peers/cmd/merger`: its adaptation with built-in plugins that reply
//! at once. Our side is the merge. Both measure the way from a request to the merged response, in
//! the types of a plugin in the same process: Go's messages, and our model types. Converting
//! messages to model types is measured separately: replies from the wire cost that in addition.
//! Requests and replies are prepared before, and nothing is encoded.
//!
//! The time includes, on both sides, claims and their owners, the view of each plugin, and the
//! result. Ours also includes the list of changes for the ledger, and freeing it, which Go does not
//! have. The time does not include freeing the container of the request: it stays with the caller,
//! and Go leaves it to its garbage collector. Our CPU time includes it.
//!
//! The benchmark also measures, without a bar, the merge through our whole adaptation with built-in
//! plugins, which adds turns, lanes, time limits and the ledger.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nri_adaptation::merge::{CreateMerge, MergedCreate};
use nri_proto::api::{CreateContainerRequest, CreateContainerResponse};
use nri_proto::{
    Adjustment, Container, Cpu, CreateReply, Device, EnvVar, LinuxAdjustment, Memory, Mount, PluginId, Resources,
};
use protobuf::Message;
use serde_json::{Value, json};

use crate::builtin::BuiltIn;
use crate::options::Options;
use crate::payload;
use crate::process::{Process, command};
use crate::rounds::Rounds;
use crate::sample::{Sample, cpu_used};

/// The bar: the largest ratio to Go's time.
pub(crate) const BAR: f64 = 0.35;
/// The bar: the largest ratio of the cost of one plugin among many to that of one among few.
pub(crate) const LINEAR_BAR: f64 = 1.5;
const PLUGINS: [usize; 4] = [1, 3, 10, 30];
/// The number of merges that are prepared before they are measured.
const CHUNK: usize = 250;
/// The number of replies that are merged in one turn.
const TURN: usize = 15_000;

/// The results for one number of plugins.
pub(crate) struct Row {
    n_plugins: usize,
    rounds: Rounds,
    /// The same measurement through the whole adaptation.
    whole: Rounds,
    /// The time of converting the replies to model types, in microseconds.
    words_us: f64,
}

/// Returns the rows, and whether they meet the bars.
pub(crate) fn compare(options: &Options) -> Result<(Vec<Row>, bool)> {
    let mut merger = Process::start(command(&options.peers.join("merger"), options.realtime))?;
    let alone = PLUGINS.map(|n| compare_alone(n, &mut merger, options)).into_iter().collect::<Result<Vec<_>>>()?;
    // Measured last, because it leaves the memory of this process in another state.
    let whole = alone.into_iter().map(|alone| compare_whole(alone, &mut merger, options));
    let rows = whole.collect::<Result<Vec<_>>>()?;
    let per_plugin: Vec<f64> = rows.iter().map(|row| row.rounds.rust_us / row.n_plugins as f64).collect();
    let is_linear = per_plugin.last() <= per_plugin.iter().rev().nth(1).map(|few| few * LINEAR_BAR).as_ref();
    let met = is_linear && rows.iter().all(|row| row.rounds.ratio <= BAR);
    Ok((rows, met))
}

pub(crate) fn table(rows: &[Row]) -> String {
    let mut table =
        "| plugins | p50, Go | p50, Rust | ratio | ratio of CPU | bar | Rust, per plugin | replies to words | whole adaptation | its ratio |\n\
                     |--:|--:|--:|--:|--:|---|--:|--:|--:|--:|\n"
            .to_owned();
    for Row { n_plugins, rounds: Rounds { go_us, rust_us, ratio, cpu_ratio }, whole, words_us } in rows {
        let met = if *ratio <= BAR { "met" } else { "missed" };
        let each = rust_us / *n_plugins as f64;
        let merge = format!(
            "| {n_plugins} | {go_us:.1} µs | {rust_us:.1} µs | {ratio:.2} | {cpu_ratio:.2} | {met} | {each:.1} µs |"
        );
        let besides = format!(" {words_us:.1} µs | {:.1} µs | {:.2} |", whole.rust_us, whole.ratio);
        writeln!(table, "{merge}{besides}").expect("writing to a string does not fail");
    }
    table
}

/// The results of the merge alone.
struct Alone {
    question: Question,
    rounds: Rounds,
    words_us: f64,
}

fn compare_alone(n_plugins: usize, merger: &mut Process, options: &Options) -> Result<Alone> {
    let question = Question::new(n_plugins);
    let repeat = question.repeat(options);
    let line = question.line(repeat)?.to_string();
    let rounds = Rounds::measure(options.rounds, || merger.ask::<Sample>(&line), || question.run(repeat))?;
    let words_us = question.words_us(repeat)?;
    Ok(Alone { question, rounds, words_us })
}

fn compare_whole(alone: Alone, merger: &mut Process, options: &Options) -> Result<Row> {
    let Alone { question, rounds, words_us } = alone;
    let repeat = question.repeat(options);
    let line = question.line(repeat)?.to_string();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let built_in = tokio.block_on(question.built_in())?;
    let through = || tokio.block_on(question.run_through(&built_in, repeat));
    let whole = Rounds::measure(options.rounds, || merger.ask::<Sample>(&line), through)?;
    tokio.block_on(built_in.stop());
    Ok(Row { n_plugins: question.replies.len(), rounds, whole, words_us })
}

/// A request, and the reply of each plugin.
#[derive(Clone)]
struct Question {
    request: CreateContainerRequest,
    replies: Vec<(PluginId, CreateContainerResponse)>,
}

impl Question {
    fn new(n_plugins: usize) -> Self {
        let start = payload::request();
        let request = CreateContainerRequest { pod: start.pod, container: start.container, ..Default::default() };
        let plugin = |n: usize| format!("{n:02}-typical").parse().expect("it is a name");
        Self { request, replies: (0..n_plugins).map(|n| (plugin(n), reply(n).into())).collect() }
    }

    /// Returns how many times the request is merged in a turn.
    fn repeat(&self, options: &Options) -> usize {
        (TURN / self.replies.len() * options.scale / 100).max(CHUNK)
    }

    fn line(&self, repeat: usize) -> Result<Value> {
        let mut replies = vec![];
        for (plugin, reply) in &self.replies {
            replies.push(json!({"plugin": plugin.as_str(), "reply": STANDARD.encode(reply.write_to_bytes()?)}));
        }
        let request = STANDARD.encode(self.request.write_to_bytes()?);
        Ok(json!({"op": "CreateContainer", "request": request, "replies": replies, "repeat": repeat}))
    }

    /// Merges `repeat` times.
    fn run(&self, repeat: usize) -> Result<Sample> {
        let container = Container::from(self.request.container.clone().unwrap_or_default());
        let words = || self.replies.iter().map(|(plugin, reply)| (plugin.clone(), reply.clone().into())).collect();
        let (mut took, mut cpu) = (vec![], Duration::ZERO);
        while took.len() < repeat {
            let count = CHUNK.min(repeat - took.len());
            let questions: Vec<(Container, Vec<_>)> = (0..count).map(|_| (container.clone(), words())).collect();
            let before = cpu_used()?;
            for (container, replies) in questions {
                let start = Instant::now();
                let (merged, _container) = merge(container, replies)?;
                took.push(start.elapsed());
                ensure!(merged.adjustment.env.len() == self.replies.len(), "a reply is lost");
            }
            cpu += cpu_used()? - before;
        }
        Sample::new(took, cpu)
    }

    async fn built_in(&self) -> Result<BuiltIn> {
        let pod = self.request.pod.clone().unwrap_or_default();
        BuiltIn::new(self.replies.iter().map(|(plugin, _)| plugin.clone()), pod.into()).await
    }

    /// The same measurement through the whole adaptation.
    async fn run_through(&self, nri: &BuiltIn, repeat: usize) -> Result<Sample> {
        let container = Container::from(self.request.container.clone().unwrap_or_default());
        let (mut took, mut cpu) = (vec![], Duration::ZERO);
        while took.len() < repeat {
            let count = CHUNK.min(repeat - took.len());
            let containers: Vec<_> = (0..count).map(|_| container.clone()).collect();
            (0..count).for_each(|_| nri.prepare(self.replies.iter().map(|(_, reply)| reply.clone().into())));
            let before = cpu_used()?;
            for container in containers {
                let (time, n_variables) = nri.create(container).await?;
                took.push(time);
                ensure!(n_variables == self.replies.len(), "a reply is lost");
            }
            cpu += cpu_used()? - before;
        }
        Sample::new(took, cpu)
    }

    /// Converts the replies to model types `repeat` times.
    fn words_us(&self, repeat: usize) -> Result<f64> {
        let mut took = vec![];
        for _ in 0..repeat {
            let replies: Vec<_> = self.replies.iter().map(|(_, reply)| reply.clone()).collect();
            let start = Instant::now();
            let words: Vec<CreateReply> = replies.into_iter().map(Into::into).collect();
            took.push(start.elapsed());
            drop(std::hint::black_box(words));
        }
        Ok(Sample::new(took, Duration::ZERO)?.p50_us)
    }
}

fn merge(container: Container, replies: Vec<(PluginId, CreateReply)>) -> Result<(MergedCreate, Arc<Container>)> {
    let mut merge = CreateMerge::new(container);
    for (plugin, reply) in replies {
        merge.apply(&plugin, reply)?;
    }
    let container = merge.shared_view();
    Ok((merge.finish(), container))
}

/// Returns a typical reply: an adjustment for the plugin's own workload. One of the plugins adjusts
/// the CPUs, and one the memory.
pub(crate) fn reply(n: usize) -> CreateReply {
    let mut adjustment = Adjustment::default();
    let mut linux = LinuxAdjustment::default();
    adjustment.annotations.set(format!("plugin-{n}.example.org/assigned"), "true").expect("it has no dash");
    adjustment.env.set(EnvVar::new(format!("PLUGIN_{n}_VISIBLE"), "0,1")).expect("it has no dash");
    let mount = Mount {
        destination: format!("/opt/plugin-{n}"),
        kind: "bind".to_owned(),
        source: format!("/var/lib/plugin-{n}/lib"),
        options: ["rbind", "rprivate", "ro"].map(str::to_owned).to_vec(),
        ..Mount::default()
    };
    adjustment.mounts.set(mount).expect("it has no dash");
    let device = Device {
        path: format!("/dev/plugin{n}"),
        kind: "c".to_owned(),
        major: 240,
        minor: i64::try_from(n).unwrap_or(0),
        ..Device::default()
    };
    linux.devices.set(device).expect("it has no dash");
    linux.resources = Some(match n {
        0 => Resources {
            cpu: Some(Cpu { shares: Some(2048), cpus: "0-3".to_owned(), mems: "0".to_owned(), ..Cpu::default() }),
            ..Resources::default()
        },
        1 => Resources { memory: Some(Memory { limit: Some(1 << 30), ..Memory::default() }), ..Resources::default() },
        n => Resources { unified: [(format!("misc.plugin-{n}"), "1".to_owned())].into(), ..Resources::default() },
    });
    adjustment.linux = Some(linux);
    CreateReply { adjustment: Some(adjustment), ..CreateReply::default() }
}
