//! The plugins, and events about them.

use std::collections::HashSet;

use nri_adaptation::health::State;
use nri_adaptation::{Happening, PluginStatus};
use nri_proto::PluginId;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{mpsc, oneshot};

use crate::layer::Layer;
use crate::lines::Lines;
use crate::protocol::{Event, Plugin};

/// Returns the plugins that are asked, in order. A closed plugin may not be removed yet.
pub(crate) fn active(layer: &Layer) -> impl Iterator<Item = PluginStatus> {
    layer.plugins().into_iter().filter(|plugin| plugin.state != State::Closed)
}

/// Reports events about plugins to the controller.
pub(crate) struct Watcher {
    builtin: HashSet<PluginId>,
    waiting: mpsc::UnboundedSender<oneshot::Sender<()>>,
}

impl Watcher {
    /// Starts the watcher if the controller wants events. Built-in plugins are not reported.
    pub(crate) fn start(happenings: Option<Receiver<Happening>>, lines: Lines, builtin: HashSet<PluginId>) -> Self {
        let (waiting, waits) = mpsc::unbounded_channel();
        if let Some(happenings) = happenings {
            tokio::spawn(tell(happenings, lines, builtin.clone(), waits));
        }
        Self { builtin, waiting }
    }

    /// Waits until all events so far were written.
    pub(crate) async fn told(&self) {
        let (sender, told) = oneshot::channel();
        if self.waiting.send(sender).is_ok() {
            // An error means that the task has ended.
            let _ = told.await;
        }
    }

    /// Returns the plugins that the controller may know.
    pub(crate) fn plugins(&self, layer: &Layer) -> Vec<Plugin> {
        let plugin = |status: PluginStatus| Plugin {
            name: status.id.name().to_owned(),
            index: status.id.index().to_string(),
            events: status.events.to_wire().unwrap_or(0),
            state: status.state.to_string(),
        };
        active(layer).filter(|status| !self.builtin.contains(&status.id)).map(plugin).collect()
    }
}

async fn tell(
    mut happenings: Receiver<Happening>,
    lines: Lines,
    builtin: HashSet<PluginId>,
    mut waits: mpsc::UnboundedReceiver<oneshot::Sender<()>>,
) {
    loop {
        let happening = tokio::select! {
            biased;
            happening = happenings.recv() => happening,
            Some(waiting) = waits.recv() => {
                // The waiting task may have ended.
                let _ = waiting.send(());
                continue;
            }
        };
        let (plugin, state, reason) = match happening {
            Ok(Happening::Joined { plugin, .. }) => (plugin, State::Active.to_string(), String::new()),
            Ok(Happening::State { plugin, state }) => (plugin, state.to_string(), String::new()),
            Ok(Happening::Closed { plugin, reason }) => (plugin, State::Closed.to_string(), reason),
            // The start or end of a process does not say that a plugin joined or left.
            Ok(Happening::Launched { .. } | Happening::NotLaunched { .. } | Happening::Exited { .. })
            | Ok(
                Happening::Policy { .. }
                | Happening::Asked { .. }
                | Happening::Late { .. }
                | Happening::Refused { .. }
                | Happening::Overdue { .. },
            )
            | Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        if !builtin.contains(&plugin) {
            lines.write(&Event::Plugin { plugin: plugin.to_string(), state, reason });
        }
    }
}
