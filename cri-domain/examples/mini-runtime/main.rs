//! A small runtime: it runs a pod of real containers with runc and NRI. Its input is a root file
//! system and a JSON file.
//!
//! ```sh
//! cargo run -p cri-domain --example mini-runtime -- \
//!     pod.json rootfs --socket /run/mini.sock --wait 1
//! ```
//!
//! Plugins may not change annotations that runtimes use as settings, nor kernel parameters of the
//! host, unless an option names them. The options may be repeated: `--allow-annotation 'run.oci.*'
//! --allow-sysctl vm.max_map_count`.
//!
//! The program needs root and runc. `pod_file.rs` describes the JSON file. Events and the output of
//! containers are printed as lines of JSON. The program ends when all containers have ended, or on
//! SIGTERM. `runc.rs` implements `Runtime` with runc, the store is `MemoryStore`, and `node.rs`
//! calls NRI.

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

/// The time that containers have to end by themselves.
const GRACE: Duration = Duration::from_secs(5);

struct Options {
    pod: PathBuf,
    rootfs: PathBuf,
    /// The path of the socket to which plugins connect.
    socket: Option<PathBuf>,
    /// The directory of plugins to launch.
    plugins: Option<PathBuf>,
    /// The file with the operator's classes of block I/O.
    blockio: Option<PathBuf>,
    /// The annotations and kernel parameters that plugins may change although runtimes or the host
    /// act on them.
    allow: Allowlist,
    /// The number of plugins that must join before the pod runs.
    wait: usize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).without_time();
    log.with_max_level(tracing::Level::WARN).init();
    let options = options()?;
    let file = PodFile::read(&options.pod)?;
    // runc exits after it has created a container, and this process then becomes the parent of the
    // container.
    rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1))?;

    let node = Node::new(&options)?;
    node.nri.start().await.context("could not start NRI")?;
    node.wait_for_plugins(options.wait).await?;
    let ran = run(&node, &file, &options).await;
    node.nri.stop().await;
    ran
}

/// Runs a pod and removes it.
async fn run(node: &Node, file: &PodFile, options: &Options) -> Result<()> {
    let pod = node.run_pod(file).await?;
    let ran = run_containers(node, &pod, file, options).await;
    // The pod is removed whether its containers ran or not.
    let removed = node.remove_pod(&pod, GRACE).await;
    match (ran, removed) {
        (Err(ran), Err(removed)) => Err(ran.context(format!("{removed:#}"))),
        (ran, removed) => ran.and(removed),
    }
}

async fn run_containers(node: &Node, pod: &str, file: &PodFile, options: &Options) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    for container in &file.containers {
        // The future of a request is large.
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
