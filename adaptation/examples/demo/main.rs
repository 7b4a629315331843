//! A runtime without real containers, with two launched plugins and the life of a pod. It prints
//! which plugins are asked, what each plugin changes, and how long each takes.
//!
//! Run it with `make run`, or `make run STAY=1` to keep the runtime running; `ANNOTATE=key=value`
//! adds annotations to the pod. The plugins are examples of `nri-plugin`. They are in the same
//! directory as this program after `cargo build -p nri-plugin -p nri-adaptation --examples`.

#![allow(clippy::print_stdout)] // The purpose of the program is its output.

mod annotate;
mod life;
mod node;
mod show;

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

use life::Life;
use node::Node;
use show::Show;

/// The pause between two pods of a runtime that keeps running.
const PAUSE: Duration = Duration::from_secs(5);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut stay = false;
    let mut annotations = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--stay" => stay = true,
            "--annotate" => annotations = annotate::parse(&arguments.next().context("--annotate takes key=value …")?)?,
            "--log" => tracing_subscriber::fmt().with_writer(std::io::stderr).without_time().init(),
            other => bail!("unknown argument {other:?}; there are --stay, --annotate and --log"),
        }
    }
    let mut show = Show::new();
    show.title("A runtime starts, and launches the plugins in its directory.");
    let mut node = Node::start()?;
    show.path("plugins", &node.plugins());
    node.open(&show).await?;
    show.path("socket", &node.socket());

    let mut life = Life::first(annotations);
    life.run(&mut node, &mut show).await?;
    show.summary(&node, &life);
    if stay {
        stay_up(&mut node, &mut show, life).await?;
    }
    show.title("The runtime goes away.");
    node.nri.stop().await;
    show.happenings(&mut node);
    Ok(())
}

/// Runs more pods until Ctrl-C is pressed. More plugins can connect meanwhile.
async fn stay_up(node: &mut Node, show: &mut Show, mut life: Life) -> Result<()> {
    show.invitation(node);
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut pause = Box::pin(tokio::time::sleep(PAUSE));
    loop {
        tokio::select! {
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            Some(happening) = node.next() => show.happening(&happening),
            () = &mut pause => {
                life = life.next();
                life.run(node, show).await?;
                show.summary(node, &life);
                pause.set(tokio::time::sleep(PAUSE));
            }
        }
    }
}
