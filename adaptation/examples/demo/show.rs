//! The output: lines of text, in colour on a terminal.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Display;
use std::io::{IsTerminal as _, stdout};
use std::path::Path;
use std::time::{Duration, Instant};

use nri_adaptation::Happening;
use nri_adaptation::ledger::EntryKind;
use nri_proto::{Event, Pod};

use crate::life::Life;
use crate::node::Node;

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const CYAN: &str = "36";

pub(crate) struct Show {
    begun: Instant,
    has_colour: bool,
    /// How long each request to each plugin took.
    took: BTreeMap<String, Vec<Duration>>,
    /// The plugins that were asked to adjust each container, by the name of the container.
    consulted: BTreeMap<String, Vec<String>>,
}

impl Show {
    pub(crate) fn new() -> Self {
        let is_unwanted =
            |name: &str, unwanted: fn(&str) -> bool| std::env::var(name).is_ok_and(|value| unwanted(&value));
        let has_colour = stdout().is_terminal()
            && !is_unwanted("NO_COLOR", |value| !value.is_empty())
            && !is_unwanted("TERM", |value| value == "dumb");
        Self { begun: Instant::now(), has_colour, took: BTreeMap::new(), consulted: BTreeMap::new() }
    }

    pub(crate) fn title(&self, text: &str) {
        println!("\n{}", self.paint(BOLD, text));
    }

    pub(crate) fn path(&self, what: &str, path: &Path) {
        self.line(&self.paint(DIM, what), path.display());
    }

    pub(crate) fn annotations(&self, pod: &Pod) {
        for (key, value) in &pod.annotations {
            println!("           {} {value}", self.paint(DIM, format!("{key}:")));
        }
    }

    /// Prints what happened to plugins since the last call.
    pub(crate) fn happenings(&mut self, node: &mut Node) {
        for happening in node.happened() {
            self.happening(&happening);
        }
    }

    /// Prints one step in the life of a pod, and the plugins that were asked.
    pub(crate) fn step(&mut self, node: &mut Node, event: Event, container: &str) {
        let mut asked = Vec::new();
        for happening in node.happened() {
            if let Happening::Asked { plugin, took, failure, .. } = &happening {
                let colour = if failure.is_some() { RED } else { CYAN };
                asked.push(format!("{} {}", self.paint(colour, plugin), self.paint(DIM, milliseconds(*took))));
                self.took.entry(plugin.to_string()).or_default().push(*took);
                if event == Event::CreateContainer {
                    self.consulted.entry(container.to_owned()).or_default().push(plugin.to_string());
                }
            } else {
                self.happening(&happening);
            }
        }
        let asked = if asked.is_empty() { self.paint(DIM, "no plugin wants to know") } else { asked.join(", then ") };
        self.line(&format!("{:<17} {container:<5}", event.rpc()), asked);
    }

    pub(crate) fn refusal(&self, error: &dyn Error) {
        let cause = error.source().map_or_else(String::new, |cause| format!(": {cause}"));
        println!("           {}", self.paint(RED, format!("not created: {error}{cause}")));
    }

    /// Prints what each plugin changed, and how long each took to answer.
    pub(crate) fn summary(&mut self, node: &Node, life: &Life) {
        self.title("Who changed what, from the ledger:");
        for container in [&life.app, &life.typo] {
            let entries = node.nri.ledger(|ledger| ledger.of(&container.id));
            let consulted = self.consulted.remove(&container.name).unwrap_or_default();
            for plugin in consulted {
                if !entries.iter().any(|entry| *entry.occasion.plugin == *plugin) {
                    println!("  {:<6} {plugin} {}", container.name, self.paint(DIM, "changed nothing"));
                }
            }
            for entry in entries {
                let colour = if matches!(entry.what, EntryKind::Changed(_)) { GREEN } else { RED };
                println!("  {:<6} {}", container.name, self.paint(colour, &entry));
            }
        }
        self.title("How long each took to answer:");
        for (plugin, took) in &self.took {
            let mean = took.iter().sum::<Duration>() / u32::try_from(took.len()).unwrap_or(u32::MAX);
            let (fastest, slowest) = (took.iter().min(), took.iter().max());
            let [mean, fastest, slowest] =
                [Some(&mean), fastest, slowest].map(|took| milliseconds(*took.unwrap_or(&mean)));
            let requests = if took.len() == 1 { "request" } else { "requests" };
            println!(
                "  {} {} {requests}, {mean} on average, {fastest} to {slowest}",
                self.paint(CYAN, format!("{plugin:<20}")),
                took.len(),
            );
        }
    }

    /// Prints how to connect another plugin.
    pub(crate) fn invitation(&self, node: &Node) {
        self.title("The runtime stays up until Ctrl-C, and the pod lives again every few seconds. To take part, connect a plugin,");
        println!("  cargo run -p nri-plugin --example logger -- --idx 30 --socket {}", node.socket().display());
        println!("{}", self.paint(BOLD, "or have one launched: put a program there that is called as its plugin is,"));
        println!("  cp my-plugin {}", node.plugins().join("30-my-plugin").display());
    }

    /// Prints an event of a plugin. Requests are printed by [`Show::step`].
    pub(crate) fn happening(&self, happening: &Happening) {
        let (colour, plugin, text) = match happening {
            Happening::Launched { plugin, pid } => (CYAN, plugin, format!("launched as process {pid}")),
            Happening::Joined { plugin, events, .. } => (GREEN, plugin, format!("joined, to be told of {events}")),
            Happening::Closed { plugin, reason } => (YELLOW, plugin, format!("closed: {reason}")),
            Happening::Exited { plugin, status, again_in: None } => (YELLOW, plugin, format!("ended, {status}")),
            Happening::Exited { plugin, status, again_in: Some(pause) } => {
                (RED, plugin, format!("ended, {status}; launched again in {pause:?}"))
            }
            Happening::NotLaunched { plugin, reason, .. } => (RED, plugin, format!("not launched: {reason}")),
            Happening::State { plugin, state } => (YELLOW, plugin, format!("is {state}")),
            Happening::Late { plugin, event, took } => {
                (YELLOW, plugin, format!("answered {} too late, after {}", event.rpc(), milliseconds(*took)))
            }
            Happening::Refused { plugin, reason } => (RED, plugin, format!("refused: {reason}")),
            // The demo ends its operations, and keeps its policy.
            Happening::Asked { .. } | Happening::Overdue { .. } | Happening::Policy { .. } => return,
        };
        self.line(&self.paint(colour, plugin), text);
    }

    fn line(&self, subject: &str, text: impl Display) {
        let since = format!("{:>7.3}s", self.begun.elapsed().as_secs_f64());
        println!("{}  {subject}  {text}", self.paint(DIM, since));
    }

    fn paint(&self, colour: &str, text: impl Display) -> String {
        if self.has_colour { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_string() }
    }
}

fn milliseconds(took: Duration) -> String {
    format!("{:.1} ms", took.as_secs_f64() * 1000.0)
}
