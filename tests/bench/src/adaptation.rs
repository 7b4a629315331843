//! The Rust side of the benchmark: a runtime with the adaptation, on a socket. It takes the same
//! commands as Go's side (`tests/interop/peers/cmd/benchruntime`).

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use nri_adaptation::policy::{Concurrency, Policies, PolicyRules};
use nri_adaptation::snapshot::Snapshot;
use nri_adaptation::{Adaptation, Config, Source, UpdatesFailed};
use nri_proto::api::StartContainerRequest;
use nri_proto::{Eviction, PluginId, Update};
use protobuf::Message;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::job::Job;
use crate::served::Served;
use crate::work::{Requests, work};

/// Serves commands until `quit` or the end of the input.
pub(crate) async fn serve(served: &Served) -> Result<()> {
    let file = &served.request;
    let encoded = std::fs::read(file).with_context(|| format!("could not read {}", file.display()))?;
    let requests = Requests::new(StartContainerRequest::parse_from_bytes(&encoded)?);
    let nri = Arc::new(listen(served, &requests)?);

    let versions = concat!("Rust ", env!("CARGO_PKG_RUST_VERSION"), ", nri-rs ", env!("CARGO_PKG_VERSION"));
    answer(&json!({ "versions": versions }))?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match *line.split_whitespace().collect::<Vec<_>>() {
            ["wait", n, seconds] => {
                let plugins = wait(&nri, n.parse()?, Duration::from_secs(seconds.parse()?)).await;
                answer(&json!({ "plugins": plugins }))?;
            }
            ["run", op, n, chunk, callers, beside] => {
                let job = Job {
                    op: op.parse()?,
                    n: n.parse()?,
                    chunk: chunk.parse()?,
                    callers: callers.parse()?,
                    beside: beside.parse()?,
                };
                answer(&work(&nri, &requests, job).await?)?;
            }
            ["quit"] => {
                nri.stop().await;
                return answer(&json!({}));
            }
            _ => bail!("{line:?} is not understood"),
        }
    }
    Ok(())
}

fn answer(answer: &impl serde::Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, answer)?;
    writeln!(out)?;
    out.flush().context("nobody listens")
}

fn listen(served: &Served, requests: &Requests) -> Result<Adaptation> {
    let mut policies = Policies::default();
    if let Some(plugin) = &served.per_pod {
        let rules = PolicyRules { concurrency: Some(Concurrency::PerPod), ..PolicyRules::default() };
        policies.plugins.insert(plugin.parse()?, rules);
    }
    let config = Config {
        runtime_name: "relay-bench".to_owned(),
        socket: Some(served.socket.clone()),
        plugin_path: None,
        plugin_config_path: None,
        policies,
        ..Config::default()
    };
    let nri = Adaptation::new(config, Arc::new(Node(requests.snapshot(served.containers))));
    nri.listen()?;
    Ok(nri)
}

/// Waits until there are `n` plugins. Returns how many there are.
async fn wait(nri: &Adaptation, n: usize, timeout: Duration) -> usize {
    let start = Instant::now();
    while nri.plugins().len() != n && start.elapsed() < timeout {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    nri.plugins().len()
}

/// A runtime whose containers never change.
struct Node(Snapshot);

#[async_trait]
impl Source for Node {
    async fn snapshot(&self) -> Snapshot {
        self.0.clone()
    }

    async fn apply(&self, _: &PluginId, _: Vec<Update>, _: Vec<Eviction>) -> Result<Vec<Update>, UpdatesFailed> {
        Ok(Vec::new())
    }
}
