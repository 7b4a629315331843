//! The plugins that every shim has: shutdown, publisher and reaper.

use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use crate::events::{EventSender, PUBLISHER, Publisher};
use crate::graph::Uri;
use crate::load::Registry;
use crate::plugin::{Plugin, Provided};
use crate::process::{Clock, REAPER, Reaper, SHUTDOWN, Shutdown};

/// How long events are sent when the shim ends.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);

/// Returns the names of the plugins that every shim has.
pub(super) fn uris() -> [Uri; 3] {
    [SHUTDOWN.uri(), PUBLISHER.uri(), REAPER.uri()]
}

/// Returns the plugins that every shim has. They are loaded first, and so they end last.
pub(super) fn builtin_plugins(shutdown: &Shutdown, clock: &Clock) -> Registry {
    let (shutdown, to_publish, to_reap) = (shutdown.clone(), clock.clone(), clock.clone());
    let shutdown = Plugin::at(SHUTDOWN).init(move |_, ()| {
        let shutdown = shutdown.clone();
        async move { Ok(Provided::new(Arc::new(shutdown))) }
    });
    let publisher = Plugin::at(PUBLISHER).init(move |init, ()| {
        let started = Publisher::start(&init.context.ttrpc_address, &init.context.namespace, to_publish.clone());
        async move { Ok(provided_publisher(started)) }
    });
    let reaper = Plugin::at(REAPER).init(move |_, ()| {
        let reaper = Arc::new(Reaper::with_clock(to_reap.clone()));
        async move { Ok(provided_reaper(reaper)) }
    });
    Registry::new().with(shutdown).with(publisher).with(reaper)
}

/// Returns the publisher, which sends its queued events when the shim ends.
fn provided_publisher((publisher, sender): (Publisher, EventSender)) -> Provided<Publisher> {
    let publisher = Arc::new(publisher);
    let counted = Arc::clone(&publisher);
    let limit = FLUSH_LIMIT + Duration::from_millis(100);
    let provided = Provided::new(publisher).debug("events", move || {
        let (n_waiting, n_lost) = counted.counts();
        format!("{n_waiting} waiting, {n_lost} lost")
    });
    provided.on_shutdown_within(limit, move || async move {
        let left = sender.flush(FLUSH_LIMIT).await;
        if left > 0 {
            warn!(left, "events were not sent");
        }
    })
}

/// Returns the reaper, which collects orphans until the shim ends.
fn provided_reaper(reaper: Arc<Reaper>) -> Provided<Reaper> {
    let (collector, counted) = (Arc::clone(&reaper), Arc::clone(&reaper));
    let orphans = tokio::spawn(async move { collector.collect_orphans().await });
    let provided = Provided::new(reaper).debug("processes", move || counted.n_processes().to_string());
    provided.on_shutdown(move || async move { orphans.abort() })
}
