//! A runtime without containers, two plugins that it launches, and a pod's life: who is asked, who
//! changes what, how long that takes.
//!
//! `make run`, or `make run STAY=1` for a runtime that stays up. The plugins are examples of
//! `nri-plugin`, and lie beside this program when they were built: `cargo build -p nri-plugin -p
//! nri-adaptation --examples`.

#![allow(clippy::print_stdout)] // Its purpose is to show something.

mod life;
mod node;
mod show;

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::signal::unix::{SignalKind, signal};

use life::Life;
use node::Node;
use show::Show;

/// The pause between two lives of a runtime that stays up.
const PAUSE: Duration = Duration::from_secs(5);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut stay = false;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--stay" => stay = true,
            "--log" => tracing_subscriber::fmt().with_writer(std::io::stderr).without_time().init(),
            other => bail!("unknown argument {other:?}; there are --stay and --log"),
        }
    }
    let mut show = Show::new();
    show.title("A runtime starts, and launches the plugins in its directory.");
    let mut node = Node::start()?;
    show.path("plugins", &node.plugins());
    node.open(&show).await?;
    show.path("socket", &node.socket());

    let mut life = Life::first();
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

/// Goes on until somebody presses Ctrl-C: others may connect meanwhile.
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
