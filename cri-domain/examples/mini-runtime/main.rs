//! A small runtime: it runs a pod of real containers with runc and NRI, from a root file system and a file of JSON.
//!
//! ```sh
//! cargo run -p cri-domain --example mini-runtime -- pod.json rootfs --socket /run/mini.sock --wait 1
//! ```
//!
//! Plugins may not change annotations that runtimes act on, nor kernel parameters of the host, unless they are named:
//! `--allow-annotation 'run.oci.*' --allow-sysctl vm.max_map_count`, as often as there are names.
//!
//! It takes root and runc. `pod_file.rs` says what is in the file. What happens is written as lines of JSON, also what containers say; it ends
//! when all of them have, or with SIGTERM. It shows how little a runtime needs to have plugins: `runc.rs` is the seam to what runs
//! containers, the store is the crate's own, and `node.rs` is where NRI is called.

#![allow(clippy::print_stdout)] // Its purpose is to tell what happens.

mod node;
mod output;
mod pod_file;
mod runc;
mod spec;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use cri_domain::generator::host::Allowlist;
use lexopt::prelude::*;
use node::Node;
use pod_file::PodFile;
use tokio::signal::unix::{SignalKind, signal};

/// How long containers may take to end by themselves.
const GRACE: Duration = Duration::from_secs(5);

struct Options {
    pod: PathBuf,
    rootfs: PathBuf,
    /// Where plugins connect.
    socket: Option<PathBuf>,
    /// Where plugins are that are launched.
    plugins: Option<PathBuf>,
    /// The operator's classes of block I/O.
    blockio: Option<PathBuf>,
    /// What plugins may change although runtimes or the host act on it.
    allow: Allowlist,
    /// How many plugins to wait for before the pod is run.
    wait: usize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).without_time();
    log.with_max_level(tracing::Level::WARN).init();
    let options = options()?;
    let file = PodFile::read(&options.pod)?;
    // The first process of a container is a child of runc, which leaves it to us.
    rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1))?;

    let node = Node::new(&options)?;
    node.nri.start().await.context("could not start NRI")?;
    node.wait_for_plugins(options.wait).await?;
    let ran = run(&node, &file, &options).await;
    node.nri.stop().await;
    ran
}

/// A pod's life.
async fn run(node: &Node, file: &PodFile, options: &Options) -> Result<()> {
    let pod = node.run_pod(file).await?;
    let ran = run_containers(node, &pod, file, options).await;
    // Whatever came of it, nothing is to be left.
    let removed = node.remove_pod(&pod, GRACE).await;
    match (ran, removed) {
        (Err(ran), Err(removed)) => Err(ran.context(format!("{removed:#}"))),
        (ran, removed) => ran.and(removed),
    }
}

async fn run_containers(node: &Node, pod: &str, file: &PodFile, options: &Options) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    for container in &file.containers {
        // What plugins are asked takes room.
        let id = Box::pin(node.create(pod, container, &options.rootfs)).await?;
        node.start(&id).await?;
    }
    tokio::select! {
        () = node.all_ended() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

fn options() -> Result<Options> {
    let (mut files, mut socket, mut plugins, mut blockio, mut wait) = (vec![], None, None, None, 0);
    let mut allow = Allowlist::default();
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Value(file) => files.push(PathBuf::from(file)),
            Long("socket") => socket = Some(PathBuf::from(parser.value()?)),
            Long("plugins") => plugins = Some(PathBuf::from(parser.value()?)),
            Long("blockio") => blockio = Some(PathBuf::from(parser.value()?)),
            Long("allow-annotation") => allow.annotations.push(parser.value()?.string()?),
            Long("allow-sysctl") => allow.sysctls.push(parser.value()?.string()?),
            Long("wait") => wait = parser.value()?.parse()?,
            Short(_) | Long(_) => return Err(argument.unexpected().into()),
        }
    }
    let Ok([pod, rootfs]) = <[PathBuf; 2]>::try_from(files) else {
        bail!(
            "usage: mini-runtime POD.json ROOTFS [--socket PATH] [--plugins DIRECTORY] [--blockio FILE] [--wait NUMBER] \
             [--allow-annotation NAME]... [--allow-sysctl NAME]..."
        )
    };
    let rootfs = rootfs.canonicalize().with_context(|| format!("could not find {}", rootfs.display()))?;
    Ok(Options { pod, rootfs, socket, plugins, blockio, allow, wait })
}
